// Package warehousetest has the promises of every warehouse, as cases that each backend runs:
// call Run from its one test.
package warehousetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Harness is one empty warehouse under test.
type Harness struct {
	Store  warehouse.Store
	Reopen func() warehouse.Store // opens the same data again, the old Store left as it is; nil: nothing survives
	Blind  bool                   // it cannot say what it has: it may report rows of earlier batches as Stored, and still stores them once
}

// Run runs every case on a harness of its own.
func Run(t *testing.T, h func(t *testing.T) Harness) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Log(c.reason)
			c.do(t, h(t))
		})
	}
}

var cases = []struct {
	name, reason string
	do           func(*testing.T, Harness)
}{
	{"an event reads back as it was stored", "a row keeps every column, the payload to the byte", readsBack},
	{"an empty event reads back empty", "a missing field is not a field with a value", readsBackEmpty},
	{"the same batch again changes nothing", "a batch whose answer was lost is sent again", insertsOnce},
	{"a redelivery is told from an event sent twice", "books count a redelivery as delivered, a second sending as skipped", tellsAgain},
	{"a batch may hold an event twice", "a client's resend may lie next to the first sending", twiceInBatch},
	{"a batch of old and new stores the new", "batches are cut anew after a restart", mixed},
	{"an event id belongs to its project", "ids of tenants must not meet", idsPerProject},
	{"concurrent inserts store each event once", "several lanes may hold the same event", concurrentInserts},
	{"events are known long after they were stored", "once means once ever, not once a while", knownLongAfter},
	{"events are known after a restart", "what was acknowledged may come again after a crash", knownAfterRestart},
	{"what memory a batch points to may be reused", "payloads belong to messages that end", ownsMemory},
	{"an ended context stores nothing", "a stop must not be held up", endedContext},
	{"an answer for every row is required", "a row without an answer could not be settled", answersNeeded},
	{"events are listed in the order they were stored", "a listing can be read on where it ended", listsInOrder},
	{"a listing ends at what was there when it began", "a listing of a busy project must come to an end", listingEnds},
	{"the newest are listed in the order they were stored", "people want to see what comes in now", listsNewest},
	{"a listing that follows goes on with what is stored", "people watch what comes in", listingFollows},
	{"a filter chooses", "people look for one user, one name, one hour", filters},
	{"a filter without a project is refused", "tenants never see each other's events", filterNeedsProject},
	{"pages go both ways, in the order of time", "people turn pages, forth and back", pagesBothWays},
	{"events of one time are each on one page", "a batch has one time", pagesOfOneTime},
	{"pages are steady while events are stored", "a page must not jump under its reader", pagesAreSteady},
	{"pages are steady while events are removed", "retention goes on while people read", pagesAfterTrim},
	{"the oldest make room, and the young stay", "a disk has an end, and nobody expects to lose what came in yesterday", bounded},
	{"a page has what its filter chooses", "any combination is asked for", pagesFiltered},
	{"pages of a person follow its merges", "a person's events are those it has now", pagesOfAPerson},
	{"pages of a person with many distinct ids", "a person who was given hundreds costs no more, and has all events", pagesOfManyDistinct},
	{"a page of no project or after no key is refused", "tenants never see each other's events", pagesRefused},
	{"an event is found by its id", "people have an id, and want to know what became of it", findsByID},
	{"an event is found long after it was stored", "ids are looked up in logs of last week", findsLater},
	{"an override moves the events of a distinct id", "who was merged keeps its history", overrides},
	{"the higher version of an override wins", "the relay may send them again and in any order", overrideVersions},
	{"an override belongs to its project", "distinct ids of tenants must not meet", overridesPerProject},
	{"a filter by person sees overrides", "a person's events are those it has now", filterByPerson},
	{"warnings are listed newest first", "what is wrong now matters", warnings},
	{"warnings expire", "warnings are kept for 30 days", warningsExpire},
	{"the oldest warnings make room", "a stranger with a key of a page can cause thousands a second", boundedWarnings},
	{"counts are exact", "people compare them with what they sent", counts},
}

// Projects and persons of the cases.
var (
	projectA = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	projectB = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	ann      = uuid.MustParse("11111111-0000-5000-8000-000000000001")
	bob      = uuid.MustParse("22222222-0000-5000-8000-000000000002")
	noon     = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

// id is the id of event i: spread like random ones, the same in every run.
func id(i int) uuid.UUID { return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)) }

// number is the inverse of id.
var number = func() map[uuid.UUID]int {
	m := map[uuid.UUID]int{}
	for i := range 1000 {
		m[id(i)] = i
	}
	return m
}()

// ev is event i with what every event has.
func ev(i int) *event.Event {
	return &event.Event{ID: id(i), Project: projectA, Name: "click", Type: "track", DistinctID: "ann", Person: ann,
		Properties: []byte(fmt.Sprintf(`{"n":%d}`, i)), Timestamp: noon.Add(time.Duration(i) * time.Second), IngestedAt: noon.Add(time.Hour), Origin: uint64(i) + 1}
}

func evs(from, to int) (es []*event.Event) {
	for i := from; i < to; i++ {
		es = append(es, ev(i))
	}
	return es
}

func insert(t *testing.T, s warehouse.Warehouse, rows ...*event.Event) []warehouse.Outcome {
	t.Helper()
	took := make([]warehouse.Outcome, len(rows))
	if err := s.Insert(t.Context(), rows, took); err != nil {
		t.Fatalf("Insert of %d rows: %v", len(rows), err)
	}
	return took
}

func wantTook(t *testing.T, got []warehouse.Outcome, want ...warehouse.Outcome) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("took %v, want %v (1 stored, 2 again, 3 duplicate)", got, want)
	}
}

// wantTook checks what became of rows, some of which may be stored from earlier batches.
func (h Harness) wantTook(t *testing.T, got []warehouse.Outcome, want ...warehouse.Outcome) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if h.Blind && got[i] == warehouse.Stored {
			want[i] = warehouse.Stored
		}
	}
	wantTook(t, got, want...)
}

// all checks that the same became of all rows.
func (h Harness) all(t *testing.T, took []warehouse.Outcome, want warehouse.Outcome) {
	t.Helper()
	h.wantTook(t, took, slices.Repeat([]warehouse.Outcome{want}, len(took))...)
}

func list(t *testing.T, s warehouse.Reader, f warehouse.Filter) (es []event.Event) {
	t.Helper()
	for e, err := range s.Events(t.Context(), f) {
		if err != nil {
			t.Fatalf("Events(%+v): %v", f, err)
		}
		es = append(es, *e)
	}
	return es
}

// wantIDs checks which events a listing has, in order.
func wantIDs(t *testing.T, got []event.Event, want ...int) {
	t.Helper()
	ids := make([]int, len(got))
	for i := range got {
		ids[i] = number[got[i].ID]
	}
	if !slices.Equal(ids, want) {
		t.Fatalf("listed events %v, want %v", ids, want)
	}
}

func wantCount(t *testing.T, s warehouse.Reader, project uuid.UUID, want int64) {
	t.Helper()
	if got, err := s.Count(t.Context(), project); err != nil || got != want {
		t.Fatalf("Count(%s) = %d, %v; want %d", project, got, err, want)
	}
}

func readsBack(t *testing.T, h Harness) {
	in := &event.Event{ID: id(1), Project: projectA, Name: "$pageview", Type: "pageview",
		DistinctID: "a\x00nn \"é\"", AnonymousID: "anon", UserID: "user", SessionID: "session",
		Page: event.Page{URL: "https://example.com/?q=\"<>\\", Referrer: "https://search.example/", PageTitle: "日本 \x00 \n", PagePath: "/"},
		Device: event.Device{DeviceType: "desktop", Browser: "Chrome", BrowserVersion: "126", OS: "Linux", OSVersion: "6",
			ScreenWidth: 65535, ScreenHeight: 1, Language: "de-DE", Timezone: "Europe/Berlin"},
		Sender:  event.Sender{SDKName: "web", SDKVersion: "1.2", IP: "2001:db8::1", UserAgent: "Mozilla/5.0"},
		BatchID: "import-1", Location: event.Location{Country: "DE", Region: "BE", City: "Berlin", NoGeo: true},
		Properties:     []byte("{ \"big\": 12345678901234567890, \"twice\":1,\"twice\":2, \"bad\":\"\xff\", \"nul\":\"\\u0000\" }"),
		UserProperties: []byte(`{"$set":{"plan":"pro"}}`),
		Timestamp:      time.Date(1969, 12, 31, 23, 59, 59, 1_500_000, time.UTC), IngestedAt: noon.Add(time.Millisecond).In(time.FixedZone("", 3600)),
		Person: ann, Origin: 1<<64 - 1,
		Changes: []person.Property{{Op: person.Set, Key: "plan"}}, Profile: true, Merge: event.Alias, Other: "other"}
	want := *in
	want.Timestamp, want.IngestedAt = time.Date(1969, 12, 31, 23, 59, 59, 1_000_000, time.UTC), noon.Add(time.Millisecond)
	want.Changes, want.Profile, want.Merge, want.Other, want.NoGeo = nil, false, 0, "", false
	wantTook(t, insert(t, h.Store, in), warehouse.Stored)
	got := list(t, h.Store, warehouse.Filter{Project: projectA})
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Fatalf("stored\n%+v\nread\n%+v", want, got)
	}
}

func readsBackEmpty(t *testing.T, h Harness) {
	want := event.Event{Project: projectA}
	wantTook(t, insert(t, h.Store, &event.Event{Project: projectA, Properties: []byte{}}), warehouse.Stored)
	got := list(t, h.Store, warehouse.Filter{Project: projectA})
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Fatalf("stored\n%+v\nread\n%+v", want, got)
	}
}

func ownsMemory(t *testing.T, h Harness) {
	e := ev(1)
	insert(t, h.Store, e)
	copy(e.Properties, `!!!!!!!`)
	e.Name = "changed"
	if got := list(t, h.Store, warehouse.Filter{Project: projectA}); len(got) != 1 || string(got[0].Properties) != `{"n":1}` || got[0].Name != "click" {
		t.Fatalf("after the batch's memory was reused, read %+v", got)
	}
}

func endedContext(t *testing.T, h Harness) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := h.Store.Insert(ctx, evs(0, 1), make([]warehouse.Outcome, 1)); err == nil {
		t.Fatal("Insert returned nil though its context had ended")
	}
	wantCount(t, h.Store, projectA, 0)
	wantTook(t, insert(t, h.Store, ev(0)), warehouse.Stored)
	for _, err := range h.Store.Events(ctx, warehouse.Filter{Project: projectA}) {
		if err == nil {
			t.Fatal("Events yielded an event though its context had ended")
		}
	}
}

func answersNeeded(t *testing.T, h Harness) {
	if err := h.Store.Insert(t.Context(), evs(0, 2), make([]warehouse.Outcome, 1)); err == nil {
		t.Fatal("Insert of two rows with room for one answer returned nil")
	}
	wantCount(t, h.Store, projectA, 0)
	insert(t, h.Store)
}
