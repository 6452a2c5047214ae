package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	chain "github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// steps are the processors of this world: a filter, one that enriches and fails without harm,
// one whose failures make the batch try again, one whose failures kill records, and one that
// counts.
func (w *windowsWorld) steps(p *process) []chain.Step {
	return []chain.Step{
		{Processor: must(chain.Filter{Keep: `kind == "mention" || numMentions > 0`}.New())},
		{Processor: enriches{w, p}},
		{OnError: chain.Retry, Processor: stumbles{w, p}},
		{OnError: chain.Dead, Processor: chain.Each("judge", w.judge)},
		{Processor: must(chain.Aggregate{Of: record.Mention}.New())},
	}
}

var moodName, moodValue = "mood", []byte(`"calm"`)

// enriches asks an outside service, and panics now and then.
type enriches struct {
	w *windowsWorld
	p *process
}

func (e enriches) Name() string                    { return "enrich" }
func (e enriches) Begin(batch string) chain.Worker { return enriching{e, batch} }

type enriching struct {
	enriches
	batch string
}

func (e enriching) Page(_ context.Context, items []*chain.Item) error {
	if err := e.w.g.do(e.p, "enrich", fmt.Sprint(e.batch, " ", e.w.of(items[0].Raw).n, " ", len(items)), func() error { return nil }); err != nil {
		return err
	}
	for _, it := range items {
		if err := it.Record.Add(moodName, moodValue); err != nil {
			return err
		}
		if e.w.chance(40, "panic", e.w.of(it.Raw).n, lately(time.Second)) {
			panic("sim: " + e.batch)
		}
	}
	return nil
}

// stumbles fails for a batch for a while.
type stumbles struct {
	w *windowsWorld
	p *process
}

func (s stumbles) Name() string                    { return "stumble" }
func (s stumbles) Begin(batch string) chain.Worker { return stumbling{s, batch} }

type stumbling struct {
	stumbles
	batch string
}

func (s stumbling) Page(context.Context, []*chain.Item) error {
	if !s.w.chance(5, "stumble", s.batch, lately(4*time.Second)) {
		return nil
	}
	s.w.book.Lock()
	defer s.w.book.Unlock()
	for _, o := range s.w.order {
		if o.batch == stored(s.batch) {
			o.why[s.p] = true
		}
	}
	return tidemill.Fail(tidemill.Transient, "sim: it stumbles")
}

// judge fails at some records for a while, and refuses others.
func (w *windowsWorld) judge(_ context.Context, _ string, it *chain.Item) error {
	r := w.of(it.Raw)
	if r.against {
		it.Refuse(tidemill.Fail(tidemill.Business, "sim: against the rules"))
	}
	if w.chance(20, "judge", r.n, lately(3*time.Second)) {
		return tidemill.Fail(tidemill.Partner, "sim: no judgement")
	}
	return nil
}
