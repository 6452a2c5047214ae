package accept

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// plan is what will become of a request.
type plan struct {
	r      *Request
	whole  *claim // of the request's key; nil: it has none
	items  []item
	claims []*claim          // all, each key once
	byKey  map[string]*claim // the same; nil while the request has one item

	jobsOf  []int // items that are put into queues, in the order of jobs
	unknown bool  // the queue's answer was lost

	// Most requests have one event: all its data fits here.
	roomOfClaims  [4]claim
	roomOfList    [4]*claim
	roomOfEntries [4]*ledger.Entry
	roomOfItems   [1]item
	roomOfJobs    [1]*tidemill.Message
	roomOfJob     [1]tidemill.Message
	roomOfJobsOf  [1]int
	roomOfEach    [1][]byte
	roomOfText    [256]byte // keys and results, as far as they fit
	text          []byte
	sum           [sha256.Size]byte // of the body
}

// claim is an entry of the ledger, and which item has it.
type claim struct {
	ledger.Entry
	by int // nobody: no item
}

const nobody = -1

// item is what will become of an event.
type item struct {
	fate     fate
	job      string // its name in the queue, and in answers
	of       string // of a duplicate: the first event's job
	like     int    // of one that is the same: the item it repeats
	stored   []byte // of one that was answered before: its answer
	in       bool   // it is in the queue
	oldApart bool   // its queue knew the name from jobApart before the entry was begun

	print          []byte // of its own key
	key, id, order *claim // nil: it has none
	hash           [sha256.Size]byte
	apart          bool // its id has another time in the ledger, or in an item before it
}

// fate of an item.
type fate uint8

const (
	fresh     fate = iota // to be accepted
	refused               // it is wrong
	reused                // its own key is that of another event
	duplicate             // it was accepted under another key
	answered              // its own key was answered before
	same                  // an item before it has its key and its bytes
)

// newPlan makes the zero plan p the plan of a request, and names its entries. A request whose
// events are all refused has no entries.
func newPlan(p *plan, r *Request) *plan {
	p.r, p.text = r, p.roomOfText[:0]
	p.claims, p.items = p.roomOfList[:0], p.roomOfItems[:]
	if len(r.Items) != 1 {
		p.items = make([]item, len(r.Items))
		p.byKey = make(map[string]*claim, 2*len(r.Items))
	}
	good := false
	for i := range r.Items {
		good = good || r.Items[i].Refused == nil
	}
	if good && r.Key != "" {
		p.sum = sha256.Sum256(r.Body)
		p.whole = p.claim(name("key."+r.Scope, r.Site, r.Key), p.sum[:])
	}
	for i := range r.Items {
		p.name(i)
	}
	return p
}

// name names one item's job and entries.
func (p *plan) name(i int) {
	in, it := &p.r.Items[i], &p.items[i]
	e := &in.Event
	if it.job = e.ID; in.Refused != nil {
		it.fate = refused
		return
	}
	key, place := p.r.Key, i
	if e.Key != "" && e.Key != key {
		key, place = e.Key, 0 // wherever it is in the request
		sum := sha256.Sum256(in.Raw)
		it.print = sum[:]
		it.key = p.claim(name("key."+p.r.Scope, p.r.Site, key), it.print)
	}
	if it.job == "" {
		it.job = event.NameFor(p.r.Site, p.r.Scope+"\x00"+key, place, in.Raw)
	} else {
		it.hash = e.Hash()
		it.id = p.claim(name("event", p.r.Site, e.ID), it.hash[:16])
	}
}

// claim returns the request's entry of that key. It makes one where no earlier item had the
// key.
func (p *plan) claim(key string, print []byte) *claim {
	if c := p.byKey[key]; c != nil {
		return c
	}
	var c *claim
	if n := len(p.claims); n < len(p.roomOfClaims) {
		c = &p.roomOfClaims[n]
	} else {
		c = new(claim)
	}
	c.Key, c.Tenant, c.Print, c.by = key, p.r.Site, print, nobody
	if p.byKey != nil {
		p.byKey[key] = c
	}
	p.claims = append(p.claims, c)
	return c
}

// entries are the ledger entries of claims. One list of them exists at a time.
func (p *plan) entries(claims []*claim) []*ledger.Entry {
	es := p.roomOfEntries[:0]
	for _, c := range claims {
		es = append(es, &c.Entry)
	}
	return es
}

// decide says what becomes of each item by what the ledger knows. It returns the answer of a
// request that was answered before.
func (p *plan) decide() (*Answer, error) {
	if p.whole != nil {
		switch p.whole.State {
		case ledger.Done:
			return &Answer{Results: asList(p.whole.Result), Again: true}, nil
		case ledger.Conflict:
			return nil, ErrReused
		case ledger.Fresh:
		default:
			return nil, ErrRunning
		}
	}
	for i := range p.items {
		if err := p.decideItem(i); err != nil {
			return nil, err
		}
	}
	if len(p.items) == 1 && p.items[0].fate == reused {
		return nil, ErrReused
	}
	return nil, nil
}

func (p *plan) decideItem(i int) error {
	it := &p.items[i]
	if it.fate != fresh {
		return nil
	}
	if k := it.key; k != nil {
		switch {
		case !bytes.Equal(k.Print, it.print) || k.State == ledger.Conflict:
			it.fate = reused
			return nil
		case k.State == ledger.Done:
			it.fate, it.stored = answered, asOne(k.Result)
			return nil
		case k.State != ledger.Fresh:
			return ErrRunning
		case k.by != nobody:
			it.fate, it.like = same, k.by
			return nil
		}
		k.by = i
	}
	if c := it.id; c != nil {
		switch {
		case !bytes.Equal(c.Print, it.hash[:16]) || c.State == ledger.Conflict:
			it.apart, it.id = true, nil
			it.job = it.jobApart()
		case c.State == ledger.Done:
			p.repeat(i, string(c.Result))
			return nil
		case c.State != ledger.Fresh:
			return ErrRunning
		case c.by != nobody:
			p.repeat(i, p.items[c.by].job)
			return nil
		case len(c.Payload) > 0:
			p.repeat(i, it.job)
			return nil
		default:
			c.by = i
		}
	}
	return nil
}

// jobApart is the name of an event whose id has another time in the ledger.
func (it *item) jobApart() string { return it.job + "." + hex.EncodeToString(it.hash[:4]) }

// old is the payload of an event's entry whose name its queue knew before the entry was begun.
var old = []byte("1")

// names are the names that events with ids may have in their queues, for asking these, and the
// item of each name.
func (p *plan) names(a *Acceptor) (names []queue.Name, of []int) {
	for i := range p.items {
		it := &p.items[i]
		if it.id == nil {
			continue
		}
		in := &p.r.Items[i]
		n := queue.Name{Queue: a.QueueOf(p.r, &in.Event, in.Raw), Tenant: p.r.Site, ID: it.job}
		names, of = append(names, n), append(of, i)
		n.ID = it.jobApart()
		names, of = append(names, n), append(of, i)
	}
	return names, of
}

// known notes whether an item's queue knows a name.
func (p *plan) known(i int, name string, is bool) {
	it := &p.items[i]
	if name != it.job {
		it.oldApart = is
		return
	}
	if is && bytes.Equal(it.id.Print, it.hash[:16]) {
		it.id.Payload = old
	}
}

// A key of a whole request was answered with a list, an event's own key with one result. The
// same event may come with either: its bytes are the same then, so the list has one result.
func asList(result []byte) []byte {
	if len(result) > 0 && result[0] == '[' {
		return result
	}
	return append(append([]byte{'['}, result...), ']')
}

func asOne(result []byte) []byte {
	if n := len(result); n > 1 && result[0] == '[' {
		return result[1 : n-1]
	}
	return result
}

// repeat ends the i-th item as a duplicate. It gives up the claims that it has by now, except
// its own key.
func (p *plan) repeat(i int, of string) {
	it := &p.items[i]
	it.fate, it.of = duplicate, of
	for _, c := range [...]*claim{it.id, it.order} {
		if c != nil && c.by == i {
			c.by = nobody
		}
	}
}

// jobs are the jobs of accepted items that are not in their queues yet.
func (p *plan) jobs(a *Acceptor) []*tidemill.Message {
	n := 0
	for i := range p.items {
		if p.items[i].waits() {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	room, jobs := p.roomOfJob[:0], p.roomOfJobs[:0]
	p.jobsOf = p.roomOfJobsOf[:0]
	if n > 1 {
		room, jobs, p.jobsOf = make([]tidemill.Message, 0, n), make([]*tidemill.Message, 0, n), make([]int, 0, n)
	}
	for i := range p.items {
		it := &p.items[i]
		if !it.waits() {
			continue
		}
		in := &p.r.Items[i]
		e := &in.Event
		room = append(room, tidemill.Message{ID: it.job, Tenant: p.r.Site, Type: e.Type, To: a.QueueOf(p.r, e, in.Raw), Payload: in.Raw, Header: in.Trace.Put(p.r.Header), Time: e.Time})
		m := &room[len(room)-1]
		if of := cmp.Or(e.User, e.Device, e.Session); of != "" {
			m.Key = p.bytes(of)
		}
		if e.Conversion {
			m.Header = append(slices.Clip(m.Header), conversion)
		}
		jobs = append(jobs, m)
		p.jobsOf = append(p.jobsOf, i)
	}
	return jobs
}

func (it *item) waits() bool { return it.fate == fresh && !it.in }

// bytes are the bytes of a text, valid while the plan is used.
func (p *plan) bytes(s string) []byte {
	from := len(p.text)
	p.text = append(p.text, s...)
	return p.text[from:len(p.text):len(p.text)]
}

// conversion marks a job.
var conversion = tidemill.Field{Name: []byte(ConversionHeader), Value: []byte("1")}

// QueueOf names the queue of an event of a request.
func (a *Acceptor) QueueOf(r *Request, e *event.Event, raw []byte) string {
	if a.o.Class != nil {
		if q := a.o.Class(e, raw); q != "" {
			return q
		}
	}
	switch {
	case e.Purchase || e.Conversion:
		return High
	case r.Low || len(r.Items) > a.o.Batch:
		return Low
	}
	return Standard
}

// added notes what became of the jobs, and says whether all are in their queues.
func (p *plan) added(took []queue.Added) (all bool) {
	all = true
	for n, i := range p.jobsOf {
		it := &p.items[i]
		it.in = took[n] == queue.New || took[n] == queue.Known
		all = all && it.in
	}
	return all
}

// done are the ends of the entries of a request that was worked on to its end.
func (p *plan) done(a *Answer, each [][]byte) []*ledger.Entry {
	ends := p.roomOfEntries[:0]
	for _, c := range p.claims {
		if c.State != ledger.Fresh {
			continue
		}
		switch {
		case c == p.whole:
			c.State, c.Result = ledger.Done, a.Results
		case c.by == nobody:
			c.State = ledger.Dropped
		case c == p.items[c.by].key:
			c.State, c.Result = ledger.Done, each[c.by]
		default:
			c.State, c.Result = ledger.Done, p.bytes(p.items[c.by].job)
		}
		ends = append(ends, &c.Entry)
	}
	return ends
}

// leave are the ends of the entries of a request that is not accepted now. No key stays. If an
// event is in a queue, or may be, its id keeps its time, so that another time under the same id
// does not get its name. An order is kept for an event that is in a queue.
func (p *plan) leave() []*ledger.Entry {
	ends := p.roomOfEntries[:0]
	for _, c := range p.claims {
		if c.State != ledger.Fresh {
			continue
		}
		c.State = ledger.Dropped
		if c != p.whole && c.by != nobody {
			switch it := &p.items[c.by]; {
			case c == it.id && (it.in || p.unknown):
				c.State = ledger.Failed
			case c == it.order && it.in:
				c.State, c.Result = ledger.Done, []byte(it.job)
			case c == it.order && p.unknown:
				c.State = ledger.Failed
			}
		}
		ends = append(ends, &c.Entry)
	}
	return ends
}
