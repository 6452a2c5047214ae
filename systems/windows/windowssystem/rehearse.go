package windowssystem

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search/memorysearch"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// rehearsedBatch is the batch of records whose request names none.
const rehearsedBatch = "rehearsal"

// logged stands for the topic of results where there is none: they are logged then.
const logged = "-"

// rehearsal is the windows system on stores in memory, which does not run. Its topics keep what is sent.
type rehearsal struct {
	r        *system.Rehearsing
	own      *windowsconfig.Settings
	uncalled map[string][]string // by record: the processors that would ask a service about it
	results  []*tidemill.Message
}

// rehearse says what would become of records that come in together: which are refused, what processors
// make of them, what goes to which topic and into the index. A processor that asks a service is left
// out, and has an end that says so.
func rehearse(r *system.Rehearsing) (system.Rehearsal, error) {
	h := &rehearsal{r: r, own: windowsconfig.Of(r.Config)}
	if _, err := h.system(); err != nil { // what is wrong shows without events
		return nil, err
	}
	return func(ctx context.Context, events []system.Incoming) ([][]system.End, error) {
		sys, err := h.system()
		if err != nil {
			return nil, err
		}
		return h.records(ctx, sys, events)
	}, nil
}

// system puts it together anew: windows that are rehearsed one after the other do not meet.
func (h *rehearsal) system() (*windows.System, error) {
	w := h.own
	steps, err := w.Steps(h.r.Now)
	if err != nil {
		return nil, err
	}
	h.uncalled, h.results = map[string][]string{}, nil
	for i := range w.Processors {
		if w.Processors[i].HTTP != nil {
			name := steps[i].Processor.Name()
			steps[i].Processor = process.Each(name, func(_ context.Context, _ string, it *process.Item) error {
				h.uncalled[string(it.Raw)] = append(h.uncalled[string(it.Raw)], name)
				return nil
			})
		}
	}
	chain, err := process.New(steps, process.Options{Now: h.r.Now})
	if err != nil {
		return nil, err
	}
	store, err := tablewindow.Memory(window.Options{Window: w.Window, Now: h.r.Now})
	if err != nil {
		return nil, err
	}
	letters, err := tabledeadletter.Memory(deadletter.Options{Now: h.r.Now})
	if err != nil {
		return nil, err
	}
	t := &w.Topics
	parts := windows.Parts{Windows: store, DeadLetters: letters, Chain: chain, Out: windows.Each(h)}
	if w.Search.Enabled {
		events, mentions, err := w.Schemas()
		if err != nil {
			return nil, err
		}
		if parts.Index, err = memorysearch.New(memorysearch.Options{Now: h.r.Now}, events, mentions); err != nil {
			return nil, err
		}
		unread := letters.Open("")
		parts.Readers = []windows.Reader{{Name: t.ProcessorEvent, Source: unread, Schema: events}, {Name: t.ProcessorMention, Source: unread, Schema: mentions}}
	}
	return windows.New(parts, windows.Options{Topics: windows.Topics{Event: t.ProcessorEvent, Mention: t.ProcessorMention, Results: cmp.Or(t.Results, logged)},
		BySentence: w.SentenceID, Header: w.Header, Expect: w.ExpectHeader, Page: w.Page, Now: h.r.Now})
}

// Write implements tidemill.Sink for the topics: the results of processors are kept, records are known.
func (h *rehearsal) Write(_ context.Context, batch []*tidemill.Message) error {
	for _, m := range batch {
		if m.Type == "result" {
			h.results = append(h.results, &tidemill.Message{To: m.To, Payload: bytes.Clone(m.Payload)})
		}
	}
	return nil
}

// records rehearses the records of one window.
func (h *rehearsal) records(ctx context.Context, sys *windows.System, events []system.Incoming) ([][]system.End, error) {
	all := make([][]system.End, len(events))
	var taken []window.Record
	var of []int
	for i := range events {
		in := &events[i]
		if err := in.OnlyWith("kind", "batch"); err != nil {
			return nil, err
		}
		kind, err := record.ParseKind(cmp.Or(in.With["kind"], record.Event.String()))
		if err != nil {
			return nil, fmt.Errorf("with: kind: %w", err)
		}
		rec, err := record.ToWindow(record.NewBatch(project.ID("default"), cmp.Or(in.With["batch"], rehearsedBatch)), kind, in.Body, &record.Record{})
		if err != nil {
			all[i] = []system.End{system.Refused(err.Error())}
			continue
		}
		taken, of = append(taken, rec), append(of, i)
	}
	if len(taken) == 0 {
		return all, nil
	}
	became, err := sys.Rehearse(ctx, taken)
	if err != nil {
		return nil, err
	}
	for n, i := range of {
		all[i] = h.ends(&became[n], events[i].Body)
	}
	last := &all[of[len(of)-1]]
	for n, r := range h.results { // of the window, which the last record ends
		at := "topic " + r.To
		if r.To == logged {
			at = "log"
		}
		*last = append(*last, system.End{At: fmt.Sprintf("%s, result %d", at, n+1), End: system.EndOf(tidemill.Delivered, ""), Output: r.Payload})
	}
	return all, nil
}

// ends are those of one record.
func (h *rehearsal) ends(r *windows.Rehearsed, body []byte) []system.End {
	ends := []system.End{{At: system.Itself, End: system.EndOf(r.Fate, r.Why)}}
	if r.Why == "duplicate" && r.Fate == tidemill.Skipped {
		return ends
	}
	for _, name := range h.uncalled[string(body)] {
		ends = append(ends, system.End{At: "processor " + name, End: "left out: it asks a service"})
	}
	if r.Topic == "" {
		return ends
	}
	ends = append(ends, system.End{At: "topic " + r.Topic, End: system.EndOf(tidemill.Delivered, ""), Output: r.Payload})
	switch {
	case r.Doc != nil:
		ends = append(ends, system.End{At: "index " + r.Doc.Schema + "-" + r.Doc.Day + ", document " + r.Doc.ID, End: system.EndOf(tidemill.Delivered, ""), Output: r.Doc.Body})
	case r.Refused != nil:
		ends = append(ends, system.End{At: "index", End: system.EndOf(tidemill.Dead, r.Refused.Error())})
	}
	return ends
}
