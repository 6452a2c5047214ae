package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// conversion is one event as a client sends it, and its fate so far.
type conversion struct {
	n       int
	site    string
	typ     string
	id      string // the client's name for it; empty: none
	order   string
	key     string // of its user
	gpc     bool   // its request says Sec-GPC: 1
	low     bool   // and that it can wait
	bad     bool   // it is not JSON
	past    bool   // its id came so long ago that only its queue knows it
	payload []byte
	at      time.Time

	legs map[string]*leg // by the partners that it is for, found without the product's rules
	why  string          // of an event that is for no partner

	job    string    // its name in the queue; empty: it never got there
	queued time.Time // when
	routed tidemill.Fate
	grave
}

// grave counts the history of a message's dead letter.
type grave struct {
	ever   bool            // it had one
	deaths map[string]bool // distinct deaths since it was last delivered
	asked  int             // requested replays
}

func (g *grave) died(when time.Time, what string) {
	g.ever = true
	if g.deaths == nil {
		g.deaths = map[string]bool{}
	}
	g.deaths[fmt.Sprint(when.UnixMilli(), what)] = true
}

// request is what a client sends under one idempotency key, repeated until it is answered, or
// until the client gives up.
type request struct {
	key    string
	site   string
	events []*conversion
	gpc    bool
	low    bool          // its sender says that it can wait
	at     time.Duration // since the beginning
	leaves int           // tries after which the client gives up; 0: never

	left   bool   // it gave up
	answer []byte // the first answer to any client
}

// consents are what events say, and whether partners may have them, in the words of the
// specification; absent is the site's setting.
var consents = []struct {
	text   string
	gpc    bool
	may    func(absent bool) bool
	vendor bool // number 755 may
}{
	{"", false, func(absent bool) bool { return absent }, true},
	{"", false, func(absent bool) bool { return absent }, true},
	{"", false, func(absent bool) bool { return absent }, true},
	{"", true, no, true},
	{`{"tcf":{"purposes":{"1":true,"7":true}}}`, false, yes, true},
	{`{"tcf":{"purposes":{"1":true,"7":true},"vendorConsent":{"755":false}}}`, false, yes, false},
	{`{"tcf":{"purposes":{"1":true}}}`, false, no, true},
	{`{"customConsent":{"advertising":true}}`, false, yes, true},
	{`{"customConsent":{"advertising":false}}`, false, no, true},
	{`{"gpc":true,"jurisdiction":"CA"}`, false, no, true},
	{`{"usp":"1YYN"}`, false, no, true},
	{`{}`, false, no, true},
}

func yes(bool) bool { return true }
func no(bool) bool  { return false }

// Sites of the workload. Strict sends no events without consent; no partner accepts those of
// Nobody.
const (
	big    = "big"
	small  = "small"
	strict = "strict"
	nobody = "nobody"
)

func absent(site string) bool { return site != strict }

// newConversion draws an event of a site. One behind an event of long ago is another purchase
// of its order; nil: behind none.
func newConversion(n int, site string, behind *conversion, peace bool, draw *rand.Rand, fars []*far) *conversion {
	e := &conversion{n: n, site: site, typ: []string{"page_view", "purchase", "custom_event"}[draw.IntN(3)], legs: map[string]*leg{},
		at: epoch.Add(-time.Duration(1+draw.IntN(3600)) * time.Second)}
	if draw.IntN(4) > 0 {
		e.id = fmt.Sprintf("%08x-0000-4000-8000-%012x", draw.Uint32(), n)
		e.past = !peace && draw.IntN(12) == 0
	}
	if e.order = fmt.Sprint("order-", n); behind != nil {
		e.typ, e.order = "purchase", behind.order
	}
	consent := consents[0]
	if !peace {
		consent = consents[draw.IntN(len(consents))]
		e.bad = draw.IntN(25) == 0
	}
	e.gpc = consent.gpc
	if draw.IntN(3) > 0 {
		e.key = fmt.Sprint("user-", draw.IntN(4))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"properties":{"n":%d}, "eventType":%q,"timestamp":%q,"siteId":%q`, n, e.typ, e.at.Format(time.RFC3339), site)
	if e.id != "" {
		fmt.Fprintf(&b, `,"eventId":%q`, e.id)
	}
	if e.typ != "purchase" {
		e.order = ""
	} else {
		fmt.Fprintf(&b, `,"orderId":%q,"value":12345678901234567890`, e.order)
	}
	if consent.text != "" {
		fmt.Fprintf(&b, `,"consent":%s`, consent.text)
	}
	b.WriteString("}")
	e.payload = b.Bytes()
	if e.bad {
		e.payload = append(e.payload[:len(e.payload)-1], "\xff"...)
		return e
	}
	e.why = delivery.NoRoute
	for _, f := range fars {
		if !f.takes(e) {
			continue
		}
		e.why = delivery.NoConsent
		if consent.may(absent(site)) && (f.vendor == "" || consent.vendor) {
			e.legs[f.name] = newLeg(e, f)
		}
	}
	for _, f := range fars { // in their order
		if l := e.legs[f.name]; l != nil {
			l.refused = !peace && draw.IntN(12) == 0
		}
	}
	return e
}

// numbered finds the number of an event in its bytes, or in a partner's form of them.
var numbered = regexp.MustCompile(`"n":(\d+)`)

// of finds the event of some bytes.
func (w *deliveryWorld) of(payload []byte) *conversion {
	m := numbered.FindSubmatch(payload)
	if m == nil {
		return nil
	}
	if n, err := strconv.Atoi(string(m[1])); err == nil && n < len(w.events) {
		return w.events[n]
	}
	return nil
}

// draw makes the workload.
func (w *deliveryWorld) draw(draw *rand.Rand) {
	sites := map[string]int{big: 12 + draw.IntN(20), small: 4 + draw.IntN(8), strict: 2 + draw.IntN(4), nobody: 2}
	if w.peace {
		sites = map[string]int{big: flood, small: 10}
	}
	for _, site := range slices.Sorted(maps.Keys(sites)) {
		var of []*conversion
		for range sites[site] {
			var behind *conversion
			if n := len(of); n > 0 && of[n-1].past && of[n-1].order != "" {
				behind = of[n-1]
			}
			e := newConversion(len(w.events), site, behind, w.peace, draw, w.fars)
			w.events = append(w.events, e)
			of = append(of, e)
		}
		if !w.peace {
			draw.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
			of = besides(of)
		}
		for len(of) > 0 {
			r := &request{key: fmt.Sprint("key-", len(w.requests)), site: site, gpc: of[0].gpc, at: w.sentAt(site, len(w.requests), draw)}
			for most := w.batchOf(site, draw); len(of) > 0 && most > 0 && of[0].gpc == r.gpc; most-- {
				r.events, of = append(r.events, of[0]), of[1:]
			}
			r.low = !w.peace && draw.IntN(4) == 0
			for _, e := range r.events {
				e.low = r.low
			}
			if !w.peace && draw.IntN(6) == 0 {
				r.leaves = 1 + draw.IntN(2)
			}
			w.requests = append(w.requests, r)
			if again := *r; !w.peace && draw.IntN(8) == 0 { // another client sends the same events
				// Under another key an event is known by its own name, or by its order's.
				if nameless := func(e *conversion) bool { return e.id == "" && e.order == "" }; draw.IntN(2) == 0 && !slices.ContainsFunc(r.events, nameless) {
					again.key += "-other"
				}
				w.requests = append(w.requests, &again)
			}
		}
	}
	slices.SortStableFunc(w.requests, func(a, b *request) int { return int(a.at - b.at) })
}

// besides puts purchases of one order behind each other, the event of long ago first.
func besides(of []*conversion) (all []*conversion) {
	for _, e := range of {
		if at := slices.IndexFunc(all, func(o *conversion) bool { return e.order != "" && o.order == e.order }); at < 0 {
			all = append(all, e)
		} else if e.n < all[at].n {
			all = slices.Insert(all, at, e)
		} else {
			for at < len(all) && all[at].order == e.order && all[at].n < e.n {
				at++
			}
			all = slices.Insert(all, at, e)
		}
	}
	return all
}

// begunBefore makes the queues know the names of events of long ago: those have ended.
func (w *deliveryWorld) begunBefore() {
	ctx := context.Background()
	for _, e := range w.events {
		if !e.past {
			continue
		}
		w.before++
		m := &tidemill.Message{ID: e.id, Tenant: e.site, To: e.endpoint()}
		room := []*tidemill.Message{{}}
		s := w.queues.Open(m.To, queue.Options{})
		err := w.queues.Add(ctx, []*tidemill.Message{m}, nil)
		if err == nil {
			_, err = s.Receive(ctx, room)
		}
		if err == nil {
			err = s.Settle(ctx, []tidemill.Settlement{{ID: room[0].ID, Mark: room[0].Mark, End: tidemill.Done, Fate: tidemill.Skipped, Cause: delivery.NoRoute}})
		}
		if err != nil {
			panic(err)
		}
	}
}

// In peace one site floods the others; one of those sends little.
const flood = 150

func (w *deliveryWorld) sentAt(site string, n int, draw *rand.Rand) time.Duration {
	switch {
	case !w.peace:
		return time.Duration(draw.Int64N(int64(40 * time.Second)))
	case site == big:
		return time.Duration(n+1) * 10 * time.Millisecond
	}
	return 500*time.Millisecond + time.Duration(draw.Int64N(int64(2*time.Second)))
}

func (w *deliveryWorld) batchOf(site string, draw *rand.Rand) int {
	switch {
	case !w.peace:
		return 1 + draw.IntN(4)
	case site == big:
		return flood / 3
	}
	return 1
}

// asked is the request as the endpoint has read it.
func (r *request) asked() *accept.Request {
	a := &accept.Request{Site: r.site, Scope: "events", Key: r.key, Low: r.low}
	if r.gpc {
		a.Header = append(a.Header, tidemill.Field{Name: []byte(delivery.GPCHeader), Value: []byte("1")})
	}
	sum := sha256.New()
	for _, e := range r.events {
		a.Items = append(a.Items, accept.Item{Raw: e.payload, Event: event.Event{ID: e.id, Type: e.typ, Site: e.site, Time: e.at,
			User: e.key, Order: e.order, Purchase: e.typ == "purchase"}})
		sum.Write(e.payload)
	}
	a.Body = sum.Sum(nil)
	return a
}

// endpoint names the queue that an event is accepted into.
func (e *conversion) endpoint() string {
	switch {
	case e.typ == "purchase":
		return "ingest.high"
	case e.low:
		return "ingest.low"
	}
	return "ingest.standard"
}
