package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// What a partner does in addition to accepting requests.
const (
	Fails   = "answered 500"
	Slower  = "answered 429"
	Locked  = "answered 401"
	Silence = "no answer in time"
	Cut     = "line cut"
	Partly  = "part of a batch failed"
	Missing = "not among the results"
	Mangled = "results cannot be read"
	Refused = "refused for good"
	Down    = "partner is down"
)

// PartnerClasses lists all of them.
var PartnerClasses = []string{Fails, Slower, Locked, Silence, Cut, Partly, Missing, Mangled, Refused, Down}

// far is a partner: its description for the product, and its behaviour.
type far struct {
	w    *deliveryWorld
	rnd  *rand.Rand // drawn from while the gate lets one effect happen
	name string

	vendor  string
	sites   []string // whose events it accepts; empty: all
	only    []string // types of events it accepts; empty: all
	dedups  bool     // it de-duplicates
	ordered bool
	items   int // events of one request
	retries int
	room    int // of its queue; 0: any
	once    partner.Once

	rates    map[string]int // percent
	from, to time.Time      // it is down
	locked   time.Time      // it refuses us until then
	lines    map[string][]*leg
	asked    map[*process]int // requests while it was down
	closes   int              // how often its circuit was closed by hand
}

// newFars draws the partners.
func newFars(w *deliveryWorld, draw *rand.Rand) []*far {
	all := []*far{
		{name: "plain", items: 1, sites: []string{big, small, strict}},
		{name: "keyed", items: 1, dedups: true, only: []string{"purchase"}, vendor: "755", sites: []string{big, small, strict}},
		{name: "batch", items: 4, dedups: draw.IntN(2) == 0, sites: []string{big, small}},
		{name: "ordered", items: 1, ordered: true, dedups: true, only: []string{"purchase", "custom_event"}, sites: []string{big, small, strict}},
	}
	for i, f := range all {
		f.w, f.rnd = w, rand.New(rand.NewPCG(w.seed, 0xfa0+uint64(i)))
		f.retries = []int{2, 3, 7}[draw.IntN(3)]
		if draw.IntN(3) == 0 {
			f.once = partner.All
		}
		if draw.IntN(2) == 0 && !w.peace {
			f.room = 1 + draw.IntN(6)
		}
		f.lines, f.asked, f.rates = map[string][]*leg{}, map[*process]int{}, map[string]int{}
		for _, c := range PartnerClasses {
			if on := draw.IntN(2) == 0; on && !w.peace {
				f.rates[c] = 1 + draw.IntN(8)
				if c == Partly || c == Missing || c == Mangled { // these have fewer occasions
					f.rates[c] *= 3
				}
			}
		}
		if draw.IntN(3) == 0 && !w.peace {
			f.down(time.Duration(draw.IntN(40))*time.Second, time.Duration(20+draw.IntN(120))*time.Second)
		}
	}
	if w.peace { // one is dead, the others are healthy
		f := all[draw.IntN(len(all))]
		f.down(0, time.Minute+time.Duration(draw.IntN(60))*time.Second)
		f.room = 1 + draw.IntN(6)
	}
	return all
}

func (f *far) down(after, d time.Duration) {
	f.from = epoch.Add(after)
	f.to = f.from.Add(d)
}

func (f *far) isDown(at time.Time) bool {
	return !at.Before(f.from) && at.Before(f.to) && (!f.w.g.calm || f.w.peace)
}

// takes reports whether an event is for the partner, whatever its consent.
func (f *far) takes(e *conversion) bool {
	return slices.Contains(f.sites, e.site) && (len(f.only) == 0 || slices.Contains(f.only, e.typ))
}

// guards reports whether the product promises to send an event once.
func (f *far) guards(e *conversion) bool {
	return f.once == partner.All || e.typ == "purchase"
}

// partner is its description for the product.
func (f *far) partner() partner.Partner {
	p := partner.Partner{Name: f.name, Endpoint: "https://" + f.name + ".test/events", MaxRetries: &f.retries, Idempotent: &f.dedups,
		Ordered: f.ordered, Vendor: f.vendor, Sites: f.sites, Once: f.once, Queue: partner.Queue{Jobs: f.room}}
	if len(f.only) > 0 {
		p.When = fmt.Sprintf(`event.eventType in ["%s"]`, strings.Join(f.only, `","`))
	}
	if f.items > 1 {
		p.Batch = partner.Batch{Items: f.items, Head: `{"events":[`, Tail: `]}`}
		p.Mapping = []partner.Field{{Field: "id", Value: "id"}, {Field: "n", Value: "event.properties.n"}}
		p.Dedup = "id"
		p.Items = partner.Items{List: "body.results", ID: "item.id", Failed: "!item.ok",
			Outcomes: []partner.Outcome{{When: `item.code == "BUSY"`, Kind: "partner_error"}}}
	}
	return p
}

// happens draws whether something goes wrong, while faults are on.
func (f *far) happens(what string) bool {
	if f.rnd.IntN(100) >= f.rates[what] || f.w.g.calm {
		return false
	}
	f.w.count[what]++
	return true
}

// call is a request as a partner gets it.
type call struct {
	f    *far
	p    *process
	legs []*leg
	hand []int // of each leg: the hand-out of its request
	key  string
	body []byte
}

// reply is the answer; none with status 0.
type reply struct {
	status int
	body   string
	after  int // Retry-After, in seconds
	cut    bool
	took   []bool // of each leg: it was accepted, and the answer says so
	not    []bool // of each leg: it was not, and the answer says so
	lag    time.Duration
}

// take is the partner: a request has arrived.
func (f *far) take(c *call) reply {
	now := time.Now()
	f.w.book.Lock()
	defer f.w.book.Unlock()
	r := reply{status: 200, body: "ok", took: make([]bool, len(c.legs)), not: make([]bool, len(c.legs)), lag: 100*time.Millisecond + time.Duration(f.rnd.Int64N(int64(100*time.Millisecond)))}
	for _, l := range c.legs {
		l.arrives()
	}
	switch {
	case f.isDown(now):
		f.w.count[Down]++
		f.asked[c.p]++
		switch roll := f.rnd.IntN(3); {
		case roll == 0 && !f.w.peace:
			r.status = 0
		default:
			r.status = 503
		}
		return r
	case f.locked.After(now) && !f.w.g.calm:
		r.status = 401
		return r
	case f.happens(Locked):
		f.locked = now.Add(time.Duration(f.rnd.IntN(20)) * time.Second)
		r.status = 401
		return r
	case f.happens(Fails):
		r.status = 500
		return r
	case f.happens(Slower):
		r.status, r.after = 429, f.rnd.IntN(8)
		return r
	case f.happens(Silence):
		if r.status = 0; f.rnd.IntN(2) == 0 {
			return r
		}
	case f.happens(Cut):
		if r.status, r.cut = 0, true; f.rnd.IntN(2) == 0 {
			return r
		}
	}
	if f.items == 1 {
		l := c.legs[0]
		if l.refused && !bytes.HasSuffix(c.body, []byte(mark)) {
			f.w.count[Refused]++
			if r.status == 200 {
				r.status, r.body = 400, `{"error":"no"}`
			}
			return r
		}
		l.taken()
		r.took[0] = r.status == 200
		return r
	}
	f.takeEach(c, &r)
	return r
}

// takeEach processes the events of a batch, and says what became of each.
func (f *far) takeEach(c *call, r *reply) {
	type result struct {
		ID   string `json:"id"`
		OK   bool   `json:"ok"`
		Code string `json:"code,omitempty"`
	}
	var results []result
	for i, l := range c.legs {
		switch {
		case l.refused:
			f.w.count[Refused]++
			r.not[i] = true
			results = append(results, result{ID: l.e.job, Code: "INVALID"})
		case f.happens(Partly):
			r.not[i] = true
			results = append(results, result{ID: l.e.job, Code: "BUSY"})
		case f.happens(Missing):
			if f.rnd.IntN(2) == 0 {
				l.taken()
			}
		default:
			l.taken()
			r.took[i] = r.status == 200
			results = append(results, result{ID: l.e.job, OK: true})
		}
	}
	f.rnd.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	text, err := json.Marshal(map[string]any{"results": results})
	if r.body = string(text); err != nil {
		panic(err)
	}
	if f.happens(Mangled) {
		r.body = r.body[:len(r.body)/2]
		clear(r.took)
		clear(r.not)
	}
}
