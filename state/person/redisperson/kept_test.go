package redisperson_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/redisperson"
	"github.com/tidemill/tidemill/state/person/tableperson"
)

// directory knows distinct ids of persons.
type directory struct {
	person.Store
	of  map[uuid.UUID]string
	err error
}

func (d *directory) DistinctOf(_ context.Context, _, id uuid.UUID) (string, error) {
	if d.err != nil {
		return "", d.err
	}
	if s, ok := d.of[id]; ok {
		return s, nil
	}
	return "", person.ErrUnknown
}

func TestFailedMergesOfOtherPrograms(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	list := testenv.Name("failed_merges:")
	p, u, a, gone, nobody := uuid.New(), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	d := &directory{Store: tableperson.Memory(tableperson.Options{}), of: map[uuid.UUID]string{u: "user", a: "anon"}}
	s := open(t, client, d, redisperson.Options{Kept: list, Now: func() time.Time { return time.UnixMilli(5000) }})
	theirs := func(from, into uuid.UUID) string {
		return `{"projectId":"` + p.String() + `","fromPersonId":"` + from.String() + `","intoPersonId":"` + into.String() + `"}`
	}
	push := func(e string) {
		if err := client.Do(t.Context(), client.B().Lpush().Key(list).Element(e).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	length := func(want int64) {
		t.Helper()
		if n, err := client.Do(t.Context(), client.B().Llen().Key(list).Build()).AsInt64(); err != nil || n != want {
			t.Errorf("the list has %d, %v; want %d", n, err, want)
		}
	}
	push("junk")
	push(theirs(a, u))
	push(theirs(gone, u))   // merged meanwhile
	push(theirs(a, nobody)) // into one that is not stored
	ours := person.Merge{Ref: person.Ref{Project: p, Distinct: "user"}, Other: "other", Event: uuid.New(), At: time.UnixMilli(7).UTC()}
	if err := s.Keep(t.Context(), []person.Merge{ours}); err != nil {
		t.Fatal(err)
	}
	d.err = errors.New("the database is away")
	if _, err := s.Oldest(t.Context(), 10); err == nil {
		t.Error("no error while nobody can say whose the persons are")
	}
	length(5)
	d.err = nil
	got, err := s.Oldest(t.Context(), 10)
	if err != nil || len(got) != 2 || got[0].Distinct != "user" || got[0].Other != "anon" || got[0].Project != p || got[0].Force || !got[0].At.Equal(time.UnixMilli(5000)) || got[1] != ours {
		t.Fatalf("Oldest: %+v, %v", got, err)
	}
	length(4) // what is done is taken off
	again, err := s.Oldest(t.Context(), 1)
	if err != nil || len(again) != 1 || again[0] != got[0] {
		t.Errorf("Oldest again: %+v, %v; want the same", again, err)
	}
	if err := s.Done(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	length(2)
	if got, err = s.Oldest(t.Context(), 10); err != nil || len(got) != 0 {
		t.Errorf("left: %+v, %v", got, err)
	}
}

func TestOtherProgramsReadOurFailedMerges(t *testing.T) {
	client := redistest.Connect(t, testenv.Redis(t))
	list := testenv.Name("failed_merges:")
	store := tableperson.Memory(tableperson.Options{})
	s := open(t, client, store, redisperson.Options{Kept: list})
	p := uuid.New()
	a, u := person.Ref{Project: p, Distinct: "a"}, person.Ref{Project: p, Distinct: "u\xff"}
	if err := store.Merge(t.Context(), []person.Merge{{Ref: person.Ref{Project: p, Distinct: "older"}, Other: "a", Event: uuid.New()}}, make([]person.Outcome, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Resolve(t.Context(), []person.Ref{a}, make([]uuid.UUID, 1)); err != nil { // so that the cache knows it
		t.Fatal(err)
	}
	if err := s.Keep(t.Context(), []person.Merge{{Ref: u, Other: "a", Event: uuid.New(), At: time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC)}}); err != nil {
		t.Fatal(err)
	}
	raw, err := client.Do(t.Context(), client.B().Lindex().Key(list).Index(0).Build()).ToString()
	var entry struct{ ProjectID, FromPersonID, IntoPersonID string }
	if jerr := json.Unmarshal([]byte(raw), &entry, json.MatchCaseInsensitiveNames(true)); err != nil || jerr != nil ||
		entry.ProjectID != p.String() || entry.FromPersonID != person.ID(person.Ref{Project: p, Distinct: "older"}).String() || entry.IntoPersonID != person.ID(u).String() {
		t.Errorf("entry %s, %v, %v", raw, err, jerr)
	}
	if !strings.HasPrefix(raw, `{"projectId":`) {
		t.Errorf("entry %s", raw)
	}
}
