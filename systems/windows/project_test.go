package windows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// of is a batch of a project.
func of(name, id string) record.Batch { return record.NewBatch(project.ID(name), id) }

// put stores an event of a project, as an endpoint does.
func (w *world) put(name, batch, payload string) {
	w.Helper()
	var read record.Record
	r := must(record.ToWindow(of(name, batch), record.Event, []byte(payload), &read))
	if err := w.sys.Put(w.Context(), []window.Record{r}, nil); err != nil {
		w.Fatal(err)
	}
}

// has is how many records the windows of a batch have.
func (w *world) has(b record.Batch) (n int64) {
	w.Helper()
	for i, err := range w.windows.List(w.Context(), window.Filter{Batch: b.String()}) {
		if err != nil {
			w.Fatal(err)
		}
		n += i.Records
	}
	return n
}

// documents are the ids and actors of what is in the index of events.
func (w *world) documents(text string) (all []string) {
	w.Helper()
	page, err := w.index.Search(w.Context(), search.Query{Schema: search.Events().Name, Text: text, Oldest: true, Size: 100})
	if err != nil {
		w.Fatal(err)
	}
	for _, h := range page.Hits {
		all = append(all, h.ID)
	}
	slices.Sort(all)
	return all
}

// written notes what is written where.
type written struct {
	mu  sync.Mutex
	all []string
}

func (x *written) note(m *tidemill.Message) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all = append(x.all, fmt.Sprintf("%s %s %s", m.To, m.Key, m.Get(record.ProjectHeader)))
	return nil
}

func named(actor string) string {
	return fmt.Sprintf(`{"globalEventId":1,"day":20250323,"actor1Name":%q}`, actor)
}

func TestProjectsWithOneBatchIDAreDeliveredApart(t *testing.T) {
	in(t, func(w *world) {
		wrote, batches := &written{}, &written{}
		w.out.set(wrote.note)
		w.up(windows.Options{Project: project.ID("news")}, process.Step{Processor: process.Each("see", func(_ context.Context, batch string, _ *process.Item) error {
			return batches.note(&tidemill.Message{To: batch})
		})}, process.Step{Processor: must(process.Aggregate{Of: record.Event}.New())})
		w.put("news", "b", named("PROTESTER"))
		w.put("sport", "b", named("RUNNER"))
		w.same("windows", []int64{w.has(of("news", "b")), w.has(of("sport", "b"))}, []int64{1, 1})
		rest(70 * time.Second)
		w.same("books", w.books(windows.Delivered), "accepted 2, delivered 2, skipped 0, dead 0, in flight 0")
		sport := project.ID("sport").String()
		slices.Sort(wrote.all)
		w.same("written", fmt.Sprintf("%q", wrote.all), fmt.Sprintf("%q", []string{"processor-event 1 ", "processor-event 1 " + sport, "results b ", "results b " + sport}))
		w.same("processors see", batches.all, []string{"b  ", "b  "})
		w.same("documents", w.documents(""), []string{"1", sport + "/1"})
		w.same("of the one", w.documents("protester"), []string{"1"})
		w.same("of the other", w.documents("runner"), []string{sport + "/1"})
	})
}

func TestALetterComesBackToItsProject(t *testing.T) {
	in(t, func(w *world) {
		w.out.set(func(*tidemill.Message) error { return errLarge })
		w.up(windows.Options{})
		w.put("default", "b", named("PROTESTER"))
		w.put("sport", "b", named("RUNNER"))
		rest(70 * time.Second)
		ids := map[string]int{}
		for _, name := range []string{"default", "sport"} {
			n := 0
			for l, err := range w.letters.List(w.Context(), deadletter.Filter{Pipeline: windows.Delivered, Tenant: project.ID(name).String()}) {
				ids[l.ID]++
				if n++; err != nil || string(l.Get(record.BatchHeader)) != "b" {
					w.Errorf("a letter of %s has the batch id %q: %v", name, l.Get(record.BatchHeader), err)
				}
				if err := w.sys.Decodes(windows.Delivered, &l.Message); err != nil {
					w.Error(err)
				}
			}
			w.same("letters of "+name, n, 1)
		}
		first, sport := "b/946684800000/event/1", project.ID("sport").String()+"/b/946684800001/event/1"
		w.same("names of letters", fmt.Sprint(ids), fmt.Sprint(map[string]int{first: 1, sport: 1}))
		w.out.set(nil)
		if n, err := w.letters.Replay(w.Context(), deadletter.Filter{}); n != 2 || err != nil {
			w.Fatal(n, err)
		}
		rest(10 * time.Second)
		w.same("windows", []int64{w.has(of("default", "b")), w.has(of("sport", "b"))}, []int64{1, 1})
		rest(70 * time.Second)
		w.same("documents", w.documents(""), []string{"1", project.ID("sport").String() + "/1"})
		strange := &tidemill.Message{Tenant: "sport", Type: "event", Payload: []byte(event(1)), Header: []tidemill.Field{{Name: []byte(record.BatchHeader), Value: []byte("b")}}}
		if err := w.sys.Decodes(windows.Delivered, strange); tidemill.KindOf(err) != tidemill.Validation {
			w.Errorf("a letter of a project that is no UUID: %v", err)
		}
	})
}

// A topic's messages belong to one project, whatever they say: any writer is trusted with it
// only.
func TestATopicIsOfOneProject(t *testing.T) {
	in(t, func(w *world) {
		w.up(windows.Options{Project: project.ID("news")})
		m := &tidemill.Message{ID: "1", To: "adapter-event", Tenant: project.ID("sport").String(), Payload: []byte(event(1)), Header: []tidemill.Field{
			{Name: []byte(record.BatchHeader), Value: []byte("b")}, {Name: []byte(record.ProjectHeader), Value: []byte(project.ID("sport").String())}}}
		if err := w.queues.Add(w.Context(), []*tidemill.Message{m}, nil); err != nil {
			w.Fatal(err)
		}
		w.send("b", "mention", mention(1, "https://example.com/a", 1))
		rest(5 * time.Second)
		w.same("records of news and sport", []int64{w.has(of("news", "b")), w.has(of("sport", "b"))}, []int64{2, 0})
	})
}

// Errors name a window by its batch id: operators have no use for its project's id.
func TestAWindowThatFailsIsNamedByItsBatchID(t *testing.T) {
	in(t, func(w *world) {
		w.out.set(func(m *tidemill.Message) error {
			if string(m.Key) == "1" {
				return errAway
			}
			return nil
		})
		w.up(windows.Options{Tries: 1})
		w.send("b", "event", event(1))
		w.send("b", "event", event(2))
		rest(70 * time.Second)
		i := w.only()
		w.same("cause", i.Cause, fmt.Sprintf("send window b/%d: 1 of 2 records: the brokers are away", i.Revision))
	})
}

// Names of messages are unique to a project, even if a batch id imitates another's.
func TestNamesOfOtherProjectsCannotBeMade(t *testing.T) {
	in(t, func(w *world) {
		sport, names := project.ID("sport").String(), []string{}
		w.out.set(func(m *tidemill.Message) error {
			names = append(names, m.ID[:strings.LastIndex(m.ID, "/b/")])
			return nil
		})
		w.up(windows.Options{AtOnce: 1})
		w.put("sport", "b", event(1))
		w.put("default", sport+"/b", event(1))
		rest(70 * time.Second)
		w.same("names", names, []string{sport, project.ID("default").String() + "/" + sport})
	})
}
