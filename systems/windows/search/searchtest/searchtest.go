// Package searchtest has the promises of every search index, as cases that each backend runs:
// call Run from its one test.
package searchtest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Harness is one empty index under test, made with the schemas that a case needs. It is set up
// already.
type Harness struct {
	Store   search.Store
	Refresh func()              // makes indexed documents findable; nil: they are at once
	Reopen  func() search.Store // opens the same data again; nil: nothing survives
}

// Run runs every case on a harness of its own. Families have unique names, so that cases may
// share a server.
func Run(t *testing.T, open func(t *testing.T, schemas ...*search.Schema) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			w := &world{T: t, schema: family(t, "news", 30*24*time.Hour), other: family(t, "other", 0)}
			w.Harness = open(t, w.schema, w.other)
			c.do(w)
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*world)
}{
	{"a document is found as it was given", "payloads are never written anew: numbers keep every digit", keepsBytes},
	{"line ends between tokens do no harm", "a bulk request is cut at line ends", lineEnds},
	{"the same documents again change nothing", "a topic may be replayed", replay},
	{"a document replaces the one of its id", "a corrected record is sent under its key", replaces},
	{"an id belongs to its day and family", "indices are per family and day", idsPerDay},
	{"a document that cannot be taken does not hold up others", "one bad record must not stop a topic", refusedAlone},
	{"a value that does not fit its type is the document's own fault", "it becomes a dead letter with its cause", misfits},
	{"names without a type are kept", "producers may send more than we know", unknownNames},
	{"an older version never replaces a newer one", "what was sent late must not undo what came after it", versions},
	{"of one id in a call the newest stays", "a batch may hold a record and its correction", onceInCall},
	{"a day need not be in the calendar", "a bad date is never an error of the record", unrealDays},
	{"ids are as long as ids may be", "keys are URLs of any length", longIDs},
	{"many may index at once", "lanes work side by side", concurrent},
	{"what memory a call points to may be reused", "payloads belong to messages that end", ownsMemory},
	{"an ended context stores nothing", "a stop must not be held up", endedContext},
	{"what was indexed survives a restart", "nil means durable", survives},
	{"setting up again changes nothing", "every instance does it at its start", setupAgain},
	{"the index says that it is well", "readiness asks it", health},
	{"queries find what they say", "all backends speak one language", queries},
	{"words are cut alike", "the same words find the same documents everywhere", wordsAlike},
	{"queries that cannot be understood are refused", "a typing error is not an empty result", badQueries},
	{"pages follow each other without gap or double", "people and scripts read on", paging},
	{"pages go back as they came", "people turn back a page", pagingBack},
	{"reading on sees no document twice while others come", "indexing never stops", pagingMeanwhile},
	{"reading back sees no document twice while others come", "indexing never stops", pagingBackMeanwhile},
	{"times limit from inclusive to exclusive", "hours lie side by side", spans},
	{"matches are counted", "people want to know how many", totals},
	{"old daily indices go", "a disk is not endless", expires},
	{"the days that were made first make room, and the young stay", "a disk is smaller than what comes in some months", bounded},
}

// world is one case.
type world struct {
	*testing.T
	Harness
	schema, other *search.Schema
}

// family makes a schema with every type.
func family(t *testing.T, name string, keep time.Duration) *search.Schema {
	t.Helper()
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	s, err := search.New(search.Definition{
		Name: name + "-" + hex.EncodeToString(b[:]), Day: "day", Time: "at", Order: []string{"number", "code"}, Keep: keep,
		Fields: []search.Field{
			{Name: "number", Type: search.Long}, {Name: "at", Type: search.Date}, {Name: "added", Type: search.Date},
			{Name: "title", Type: search.Text}, {Name: "place", Type: search.Text}, {Name: "code", Type: search.Keyword},
			{Name: "flag", Type: search.Byte}, {Name: "kind", Type: search.Short}, {Name: "count", Type: search.Integer}, {Name: "tone", Type: search.Double},
			{Name: "where", Type: search.GeoPoint}, {Name: "url", Type: search.Keyword, Stored: true}, {Name: "note", Type: search.Text, Stored: true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Days that are kept; others may share an index.
var (
	today     = time.Now().UTC().Format(time.DateOnly)
	yesterday = time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)
)

// doc is a document of today with id and body.
func (w *world) doc(id, body string) search.Doc {
	return search.Doc{Schema: w.schema.Name, Day: today, ID: id, Body: []byte(body)}
}

// index indexes documents, all of which must be accepted, and makes them findable.
func (w *world) index(docs ...search.Doc) {
	w.Helper()
	if err := w.Store.Index(w.Context(), docs); err != nil {
		w.Fatalf("Index of %d documents: %v", len(docs), err)
	}
	w.refresh()
}

func (w *world) refresh() {
	if w.Refresh != nil {
		w.Refresh()
	}
}

// find returns the hits of a query, all on one page.
func (w *world) find(q search.Query) []search.Hit {
	w.Helper()
	if q.Schema == "" {
		q.Schema = w.schema.Name
	}
	if q.Size == 0 {
		q.Size = search.MaxSize
	}
	p, err := w.Store.Search(w.Context(), q)
	if err != nil {
		w.Fatalf("Search(%+v): %v", q, err)
	}
	return p.Hits
}

// ids of hits, sorted.
func ids(hits []search.Hit) []string {
	all := []string{}
	for _, h := range hits {
		all = append(all, h.ID)
	}
	slices.Sort(all)
	return all
}

func (w *world) wantIDs(text string, want ...string) {
	w.Helper()
	slices.Sort(want)
	if got := ids(w.find(search.Query{Text: text})); !slices.Equal(got, want) {
		w.Errorf("%s finds %q, want %q", text, got, want)
	}
}

// wantBody checks the one document of an id.
func (w *world) wantBody(id, want string) {
	w.Helper()
	var got []string
	for _, h := range w.find(search.Query{}) {
		if h.ID == id {
			got = append(got, string(h.Body))
		}
	}
	if len(got) != 1 || got[0] != want {
		w.Errorf("under %s there is %q, want one document %s", id, got, want)
	}
}

// wantRefused checks that exactly those documents are refused, with that kind.
func (w *world) wantRefused(docs []search.Doc, kind tidemill.Kind, want ...int) {
	w.Helper()
	err := w.Store.Index(w.Context(), docs)
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		w.Fatalf("Index: %v, want some refused", err)
	}
	var got []int
	for _, f := range partly.Failed {
		got = append(got, f.Index)
		if tidemill.KindOf(f.Err) != kind {
			w.Errorf("document %d is refused as %v, want %v: %v", f.Index, tidemill.KindOf(f.Err), kind, f.Err)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("refused are %v, want %v: %v", got, want, err)
	}
	w.refresh()
}

// numbered is document i: some of one time, some without one.
func (w *world) numbered(i int) search.Doc {
	at := fmt.Sprintf(`"2026-05-04T12:%02d:00Z"`, i/5)
	if i%9 == 8 {
		at = "null"
	}
	d := w.doc(fmt.Sprintf("id-%03d", i), fmt.Sprintf(`{"number":%d,"at":%s,"code":"c%d","title":"number %d"}`, i%4, at, i, i))
	d.Day = fmt.Sprintf("2026-05-%02d", 1+i%3)
	return d
}
