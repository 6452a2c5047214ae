package windows

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Rehearsed is what would become of a record.
type Rehearsed struct {
	Fate    tidemill.Fate // None: its window would be tried again
	Why     string        // of another fate than Delivered
	Topic   string        // that it is sent to
	Payload []byte        // what is sent
	Doc     *search.Doc   // what is indexed; nil: nothing
	Refused error         // why it cannot be indexed; nil: it can
}

// Rehearse says what would become of records of one batch that are together in a window. The system
// must not run: its window store has that window from then on, and Out gets what is sent. A record
// that another with its name follows is a duplicate: the later one stays.
func (s *System) Rehearse(ctx context.Context, records []window.Record) ([]Rehearsed, error) {
	all, of := make([]Rehearsed, len(records)), map[string]int{}
	for i := range records {
		if before, twice := of[nameOf(&records[i])]; twice {
			all[before] = Rehearsed{Fate: tidemill.Skipped, Why: "duplicate"}
		}
		of[nameOf(&records[i])] = i
	}
	m, err := s.handedOut(ctx, records)
	if err != nil {
		return nil, err
	}
	l := &delivering{s: s, saw: func(r *window.Record, it *process.Item, sent *tidemill.Message) {
		is := &all[of[nameOf(r)]]
		*is = Rehearsed{Fate: tidemill.Delivered}
		if it.Fate != tidemill.None {
			is.Fate, is.Why = it.Fate, it.Why
			return
		}
		is.Topic, is.Payload = sent.To, bytes.Clone(sent.Payload)
		for _, reader := range s.p.Readers {
			if reader.Name == sent.To {
				is.index(s, &reader, sent)
			}
		}
	}}
	task := flow.NewTask(*m)
	if err := l.Do(ctx, []*flow.Task{task}); err != nil {
		return nil, err
	}
	if err := task.Err(); err != nil {
		for _, i := range of {
			all[i] = Rehearsed{Why: err.Error()}
		}
	}
	return all, nil
}

// index makes the document of what is sent.
func (r *Rehearsed) index(s *System, reader *Reader, sent *tidemill.Message) {
	doc, err := reader.Schema.Doc(s.document(sent), r.Payload)
	if r.Refused = err; err == nil {
		r.Doc = &doc
	}
}

func nameOf(r *window.Record) string { return r.Kind + "/" + r.Qualifier + "/" + r.ID }

// handedOut puts records into a window, and closes and receives it.
func (s *System) handedOut(ctx context.Context, records []window.Record) (*tidemill.Message, error) {
	if err := s.p.Windows.Put(ctx, records, make([]window.Kept, len(records))); err != nil {
		return nil, err
	}
	if _, err := s.p.Windows.CloseNow(ctx, records[0].Batch); err != nil {
		return nil, err
	}
	into := []*tidemill.Message{{}}
	n, err := s.p.Windows.Open().Receive(ctx, into)
	if err == nil && n != 1 {
		err = fmt.Errorf("window of batch %s was not handed out", records[0].Batch)
	}
	return into[0], err
}
