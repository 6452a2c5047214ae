package profiletest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

var reading = []testcase{
	{"finds a profile by one identity in any spelling, and attaches nothing", "support looks people up", func(w *world) {
		id := w.created(who("m-1", "ann@club.example", "12345"))
		w.update(change(id, "e", -1, set("a", "1")))
		for _, by := range []profile.Identity{ext(" m-1"), mail("ANN@club.example"), phone("1-23-45")} {
			p, err := w.Store.Find(w.Context(), tenant, by)
			if err != nil || p.ID != id || len(p.Identities) != 3 || string(p.Object()) != `{"a":1}` {
				w.Errorf("Find %v: %+v, %v", by, p, err)
			}
		}
		for _, by := range []profile.Identity{ext("m-2"), mail("m-1@club.example"), phone("123")} {
			_, err := w.Store.Find(w.Context(), tenant, by)
			w.refused(err, tidemill.NotFound, profile.ErrNotFound)
		}
		for _, by := range []profile.Identity{{}, {Kind: 9, Value: "x"}, ext(" "), mail("x"), phone("x")} {
			_, err := w.Store.Find(w.Context(), tenant, by)
			w.refused(err, tidemill.Validation, profile.ErrIdentity)
		}
		_, err := w.Store.Find(w.Context(), "club-2", ext("m-1"))
		w.refused(err, tidemill.NotFound, profile.ErrNotFound)
	}},
	{"gets a profile of its tenant only", "ids are no secret", func(w *world) {
		id := w.created(who("m-1", "", ""))
		_, err := w.Store.Get(w.Context(), "club-2", id)
		w.refused(err, tidemill.NotFound, profile.ErrNotFound)
		_, err = w.Store.Get(w.Context(), tenant, uuid.UUID{7})
		w.refused(err, tidemill.NotFound, profile.ErrNotFound)
		_, err = w.Store.Get(w.Context(), "", id)
		w.refused(err, tidemill.Validation, profile.ErrIdentity)
	}},
	{"lists a tenant's profiles by id, page by page", "a tenant has more than fit in memory", func(w *world) {
		var ids []uuid.UUID
		for i := range 8 {
			ids = append(ids, w.created(who(fmt.Sprint("m-", i), "", "")))
			other := who(fmt.Sprint("m-", i), "", "")
			other.Tenant = "club-0"
			w.created(other)
		}
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		var got []uuid.UUID
		for _, p := range w.all() {
			got = append(got, p.ID)
			if p.Tenant != tenant || len(p.Identities) != 1 {
				w.Errorf("got %+v", p)
			}
		}
		if !slices.Equal(got, ids) {
			w.Errorf("got %v, want %v", got, ids)
		}
		for max, want := range map[int]int{0: 8, -1: 8, 5: 5, 1 << 40: 8} {
			if ps, err := w.Store.List(w.Context(), tenant, uuid.Nil, max); err != nil || len(ps) != want {
				w.Errorf("List of at most %d: %d, %v; want %d", max, len(ps), err, want)
			}
		}
		if ps, err := w.Store.List(w.Context(), "club-9", uuid.Nil, 0); err != nil || len(ps) != 0 {
			w.Errorf("List of nobody: %v, %v", ps, err)
		}
		_, err := w.Store.List(w.Context(), "", uuid.Nil, 0)
		w.refused(err, tidemill.Validation, profile.ErrIdentity)
	}},
	{"ids of its own are in the order of creation", "pages go from the oldest to the newest", func(w *world) {
		var ids []uuid.UUID
		for i := range 20 {
			ids = append(ids, w.created(who(fmt.Sprint("m-", i), "", "")))
		}
		var got []uuid.UUID
		for _, p := range w.all() {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, ids) {
			w.Errorf("got %v, want %v", got, ids)
		}
	}},
	{"forgets a profile with all that is known of it", "people have a right to it", func(w *world) {
		id, other := w.created(who("m-1", "ann@club.example", "12345")), w.created(who("m-2", "", ""))
		w.update(change(id, "e", -1, set("a", "1")), change(other, "e", -1, set("a", "2")))
		if there, err := w.Store.Delete(w.Context(), "club-2", id); err != nil || there {
			w.Errorf("Delete for another tenant: %v, %v", there, err)
		}
		w.has(id, ext("m-1"), mail("ann@club.example"), phone("12345"))
		for i := range 2 {
			if there, err := w.Store.Delete(w.Context(), tenant, id); err != nil || there != (i == 0) {
				w.Errorf("Delete number %d: %v, %v", i+1, there, err)
			}
		}
		_, err := w.Store.Get(w.Context(), tenant, id)
		w.refused(err, tidemill.NotFound, profile.ErrNotFound)
		w.refused(w.ask(known("m-1", "ann@club.example", "12345"))[0].Err, tidemill.NotFound, profile.ErrNotFound)
		w.refused(w.failures(change(id, "e", -1, set("a", "1")))[0], tidemill.NotFound, profile.ErrNotFound)
		w.holds(other, `{"a":2}`)
		w.clock.Advance(time.Hour)
		anew := w.created(who("m-1", "", ""))
		if p := w.get(anew); anew == id || len(p.Identities) != 1 || len(p.Attributes) != 0 || !p.Created.Equal(w.clock.Now()) {
			w.Errorf("after %v came %+v", id, p)
		}
		if _, err := w.Store.Delete(w.Context(), "", id); err == nil {
			w.Error("Delete without a tenant was taken")
		}
		if w.Whole != nil {
			w.Whole(w.T)
		}
	}},
}

var durable = []testcase{
	{"what was acknowledged is there after a crash", "the queue forgets an event that was acknowledged", func(w *world) {
		if w.Reopen == nil {
			return
		}
		asks := []profile.Ask{who("m-1", "ann@club.example", ""), who("m-2", "", "12345")}
		first := w.ask(asks...)
		w.update(change(first[0].Profile, "e", -5, set("a", "1"), add("n", "2"), once("o", "3")), change(first[0].Profile, "f", -4, unset("a")))
		w.Store = w.Reopen(w.T)
		w.found(first[0].Profile, asks[0])
		w.found(first[1].Profile, asks[1])
		w.update(change(first[0].Profile, "late", -6, set("a", "9"), add("n", "1"), once("o", "2")))
		w.holds(first[0].Profile, `{"n":3,"o":2}`)
		if there, err := w.Store.Delete(w.Context(), tenant, first[1].Profile); err != nil || !there {
			w.Errorf("Delete: %v, %v", there, err)
		}
		w.Store = w.Reopen(w.T)
		w.refused(w.ask(known("m-2", "", "12345"))[0].Err, tidemill.NotFound, profile.ErrNotFound)
	}},
}
