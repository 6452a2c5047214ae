package profiletest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

var resolving = []testcase{
	{"creates a profile where that is allowed, and says that it is new", "the log and the rate of matched events need it", func(w *world) {
		id := w.created(who("m-1", "ann@club.example", "+49 30 1234"))
		w.has(id, ext("m-1"), mail("ann@club.example"), phone("+49301234"))
		p := w.get(id)
		if p.ID != id || p.Tenant != tenant || !p.Created.Equal(start) || !p.Updated.Equal(start) || len(p.Attributes) != 0 {
			w.Errorf("got %+v, made at %v", p, start)
		}
	}},
	{"says not found where creating is not allowed, and changes nothing", "the event that creates it may be on its way", func(w *world) {
		got := w.ask(known("m-1", "", ""), known("", "a@b.example", ""))
		for _, a := range got {
			w.refused(a.Err, tidemill.NotFound, profile.ErrNotFound)
			if a.Profile != uuid.Nil || a.New {
				w.Errorf("got %+v beside the error", a)
			}
		}
		if ps := w.all(); len(ps) != 0 {
			w.Errorf("there are %d profiles, want none", len(ps))
		}
	}},
	{"finds by each identity alone", "most events carry only one", func(w *world) {
		id := w.created(who("m-1", "ann@club.example", "0301234"))
		w.found(id, known("m-1", "", ""), known("", "ann@club.example", ""), known("", "", "0301234"), who("m-1", "ann@club.example", "0301234"))
	}},
	{"the same again gives the same profile, which is not new", "the answer may be lost, and the queue sends again", func(w *world) {
		asks := []profile.Ask{who("m-1", "a@b.example", ""), who("", "", "12345"), who("m-2", "", "")}
		first := w.ask(asks...)
		for range 2 {
			for i, a := range w.ask(asks...) {
				if a != (profile.Answer{Profile: first[i].Profile}) {
					w.Errorf("%+v: %+v, want %v", asks[i], a, first[i].Profile)
				}
			}
		}
		if ps := w.all(); len(ps) != 3 {
			w.Errorf("there are %d profiles, want 3", len(ps))
		}
	}},
	{"attaches what nobody has, also where creating is not allowed", "the next event may carry the new email alone", func(w *world) {
		id := w.created(who("m-1", "", ""))
		w.found(id, known("m-1", "old@club.example", ""), known("", "old@club.example", "12345"), known("m-1", "new@club.example", "12345"))
		w.has(id, ext("m-1"), mail("new@club.example"), mail("old@club.example"), phone("12345"))
		w.found(id, known("", "new@club.example", ""), known("", "", "12345"))
	}},
	{"gives an external id to who is known by email", "first the newsletter, then the membership; and each application has ids of its own", func(w *world) {
		id := w.created(who("", "ann@club.example", ""))
		w.found(id, who("scl-1", "ann@club.example", ""), who("teetime-9", "ann@club.example", ""), known("teetime-9", "", ""))
		w.has(id, ext("scl-1"), ext("teetime-9"), mail("ann@club.example"))
	}},
	{"two profiles are ambiguous: both are named and nothing is changed", "a wrong merge cannot be undone", func(w *world) {
		a, b := w.created(who("m-1", "", "")), w.created(who("", "ann@club.example", ""))
		c := w.created(who("", "", "12345"))
		w.ambiguous(w.ask(who("m-1", "ann@club.example", "777"))[0], a, b)
		w.ambiguous(w.ask(known("", "ann@club.example", "12345"))[0], b, c)
		w.ambiguous(w.ask(known("m-1", "", "12345"))[0], a, c)
		w.ambiguous(w.ask(known("m-1", "ann@club.example", "12345"))[0], a, b, c)
		w.ambiguous(w.ask(known("m-9", "ann@club.example", "12345"))[0], b, c)
		w.has(a, ext("m-1"))
		w.has(b, mail("ann@club.example"))
		w.has(c, phone("12345"))
		if ps := w.all(); len(ps) != 3 {
			w.Errorf("there are %d profiles, want 3", len(ps))
		}
	}},
	{"the error of the ambiguous names the profiles and no identity", "it is logged, and identities are personal", func(w *world) {
		a, b := w.created(who("m-1", "", "")), w.created(who("", "ann@club.example", ""))
		text := w.ask(who("m-1", "ann@club.example", ""))[0].Err.Error()
		for _, want := range []string{a.String(), b.String(), "externalId", "email"} {
			if !strings.Contains(text, want) {
				w.Errorf("%q does not contain %q", text, want)
			}
		}
		if strings.Contains(text, "ann@") || strings.Contains(text, "m-1") {
			w.Errorf("%q contains an identity", text)
		}
	}},
	{"answers a batch as if its asks came one after the other", "how events are batched must not matter", func(w *world) {
		got := w.ask(
			known("m-1", "", ""),                 // nobody yet
			who("m-1", "", ""),                   // creates
			known("m-1", "ann@club.example", ""), // attaches
			who("", "ann@club.example", "12345"), // attaches
			who("", "", "12345"),
			who("", "bob@club.example", ""),
			who("m-1", "bob@club.example", ""), // ambiguous
			who("m-2", "bob@club.example", "777"),
			who("", "", "777"))
		w.refused(got[0].Err, tidemill.NotFound, profile.ErrNotFound)
		ann, bob := got[1].Profile, got[5].Profile
		w.ambiguous(got[6], ann, bob)
		for i, want := range []profile.Answer{1: {Profile: ann, New: true}, 2: {Profile: ann}, 3: {Profile: ann}, 4: {Profile: ann}, 5: {Profile: bob, New: true}, 7: {Profile: bob}, 8: {Profile: bob}} {
			if i != 0 && i != 6 && got[i] != want {
				w.Errorf("answer %d: %+v, want %+v", i, got[i], want)
			}
		}
		w.has(ann, ext("m-1"), mail("ann@club.example"), phone("12345"))
		w.has(bob, ext("m-2"), mail("bob@club.example"), phone("777"))
	}},
	{"knows a customer in every spelling", "people write their email and phone as they like", func(w *world) {
		id := w.created(who(" M-1\t", " Ann.Öz@Club.EXAMPLE ", "+49 (30) 12-34/5.6"))
		w.has(id, ext("M-1"), mail("ann.öz@club.example"), phone("+4930123456"))
		w.found(id, known("M-1", "", ""), known("", "ann.O\u0308z@club.example", ""), known("", "", "+4930123456"))
		for _, a := range []profile.Ask{known("m-1", "", ""), known("", "annöz@club.example", ""), known("", "", "4930123456")} {
			w.refused(w.ask(a)[0].Err, tidemill.NotFound, profile.ErrNotFound)
		}
	}},
	{"takes nothing but space for not given", "forms send empty fields", func(w *world) {
		id := w.created(who("m-1", " ", ""))
		w.has(id, ext("m-1"))
		w.refused(w.ask(who("", " \t", "\u00a0"))[0].Err, tidemill.Validation, profile.ErrIdentity)
	}},
	{"refuses a bad ask by itself, with nothing changed for it", "one bad event must not hold up a batch", func(w *world) {
		asks := []profile.Ask{
			who("", "", ""), who("m-1", "no email", ""), who("m-1", "", "call me"), who("m\x00", "", ""), who("\xff", "", ""),
			who(strings.Repeat("x", profile.MaxName+1), "", ""), {Identities: profile.Identities{External: "m-1"}, Create: true},
			{Tenant: "t\n", Identities: profile.Identities{External: "m-1"}, Create: true}, {Tenant: "\xff", Identities: profile.Identities{External: "m-1"}, Create: true},
			who("m-2", "", ""),
		}
		got := w.ask(asks...)
		for i, a := range got[:len(got)-1] {
			if w.refused(a.Err, tidemill.Validation, profile.ErrIdentity); w.Failed() {
				w.Fatalf("ask %d: %+v", i, asks[i])
			}
		}
		if last := got[len(got)-1]; last.Err != nil || !last.New {
			w.Errorf("the good one: %+v", last)
		}
		if ps := w.all(); len(ps) != 1 {
			w.Errorf("there are %d profiles, want 1", len(ps))
		}
	}},
	{"keeps tenants apart", "one club's members are none of another's", func(w *world) {
		a := w.created(who("m-1", "ann@club.example", ""))
		other := who("m-1", "ann@club.example", "")
		other.Tenant = "club-2"
		b := w.created(other)
		if a == b {
			w.Error("both tenants have one profile")
		}
		w.found(a, known("m-1", "", ""))
		w.found(b, other)
		got := w.ask(other, known("", "ann@club.example", ""))
		if got[0].Profile != b || got[1].Profile != a {
			w.Errorf("got %+v, want %v and %v", got, b, a)
		}
	}},
	{"takes ids from where it is told", "simulation replays them", func(w *world) {
		n := byte(0)
		w = newWorld(w.T, w.open, profile.Options{NewID: func() uuid.UUID { n++; return uuid.UUID{1, 15: n} }})
		if id := w.created(who("m-1", "", "")); id[0] != 1 || id[15] == 0 {
			w.Errorf("got %v, want an id of ours", id)
		}
	}},
	{"answers many asks in one call", "replays come in thousands", func(w *world) {
		const n = 3000
		asks := make([]profile.Ask, n)
		for i := range asks {
			asks[i] = who(fmt.Sprint("m-", i%2000), fmt.Sprintf("m%d@club.example", i%2000), "")
			asks[i].Tenant = fmt.Sprint("club-", i%7%3)
		}
		first := w.ask(asks...)
		seen := map[profile.Ask]uuid.UUID{}
		for i, a := range first {
			before, ok := seen[asks[i]]
			if a.Err != nil || a.New == ok || ok && before != a.Profile {
				w.Fatalf("ask %d: %+v after %v", i, a, before)
			}
			seen[asks[i]] = a.Profile
		}
		for i, a := range w.ask(asks...) {
			if a != (profile.Answer{Profile: first[i].Profile}) {
				w.Fatalf("ask %d again: %+v, want %v", i, a, first[i].Profile)
			}
		}
	}},
	{"refuses a call without room for its answers", "a program is wrong", func(w *world) {
		if err := w.Store.Resolve(w.Context(), make([]profile.Ask, 2), make([]profile.Answer, 1)); err == nil {
			w.Error("it was taken")
		}
	}},
	{"does nothing under a context that has ended", "shutdown must not wait", func(w *world) {
		id := w.created(who("m-1", "", ""))
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if err := w.Store.Resolve(ctx, []profile.Ask{who("m-2", "", "")}, make([]profile.Answer, 1)); !errors.Is(err, context.Canceled) {
			w.Errorf("Resolve: %v", err)
		}
		if err := w.Store.Update(ctx, []profile.Change{change(id, "e", 0, set("a", "1"))}); !errors.Is(err, context.Canceled) {
			w.Errorf("Update: %v", err)
		}
		if _, err := w.Store.Get(ctx, tenant, id); !errors.Is(err, context.Canceled) {
			w.Errorf("Get: %v", err)
		}
		if _, err := w.Store.Find(ctx, tenant, ext("m-1")); !errors.Is(err, context.Canceled) {
			w.Errorf("Find: %v", err)
		}
		if _, err := w.Store.List(ctx, tenant, uuid.Nil, 0); !errors.Is(err, context.Canceled) {
			w.Errorf("List: %v", err)
		}
		if _, err := w.Store.Delete(ctx, tenant, id); !errors.Is(err, context.Canceled) {
			w.Errorf("Delete: %v", err)
		}
		if ps := w.all(); len(ps) != 1 || len(ps[0].Attributes) != 0 {
			w.Errorf("got %+v", ps)
		}
	}},
	{"does nothing for nobody", "an empty batch is no error", func(w *world) {
		w.ask()
		w.update()
	}},
}

var limits = []testcase{
	{"with one external id each, another id is another customer", "a family shares an email", func(w *world) {
		w = newWorld(w.T, w.open, profile.Options{Externals: 1})
		ann := w.created(who("m-1", "family@home.example", ""))
		bob := w.created(who("m-2", "family@home.example", "777"))
		for range 2 { // repeating it gives the same
			w.found(ann, who("m-1", "family@home.example", ""), known("", "family@home.example", ""))
			w.found(bob, who("m-2", "family@home.example", "777"), known("", "", "777"))
		}
		w.found(bob, known("m-2", "family@home.example", "888"))
		w.has(ann, ext("m-1"), mail("family@home.example"))
		w.has(bob, ext("m-2"), phone("777"), phone("888"))
		w.refused(w.ask(known("m-3", "family@home.example", "777"))[0].Err, tidemill.NotFound, profile.ErrNotFound)
		w.ambiguous(w.ask(known("", "family@home.example", "777"))[0], ann, bob) // nothing tells them apart

		cid := w.created(who("", "cid@home.example", "")) // no external id yet
		w.found(cid, who("m-4", "cid@home.example", ""), who("m-4", "cid@home.example", "777"))
		w.has(cid, ext("m-4"), mail("cid@home.example"))
	}},
	{"the same holds inside one batch", "how events are batched must not matter", func(w *world) {
		w = newWorld(w.T, w.open, profile.Options{Externals: 1})
		got := w.ask(who("m-1", "family@home.example", ""), who("m-2", "family@home.example", ""), who("m-2", "family@home.example", ""), who("m-1", "", ""))
		if !got[0].New || !got[1].New || got[0].Profile == got[1].Profile || got[2] != (profile.Answer{Profile: got[1].Profile}) || got[3].Profile != got[0].Profile {
			w.Errorf("got %+v", got)
		}
	}},
	{"a profile that has all emails it can have refuses one more", "a shared mailbox must not grow for ever", func(w *world) {
		id := w.created(who("m-1", "", ""))
		for i := range profile.MaxEach {
			w.found(id, known("m-1", fmt.Sprintf("m%d@club.example", i), ""))
		}
		got := w.ask(known("m-1", "more@club.example", "777"))[0]
		w.refused(got.Err, tidemill.Business, profile.ErrFull)
		w.refused(w.ask(known("", "more@club.example", ""))[0].Err, tidemill.NotFound, profile.ErrNotFound)
		w.refused(w.ask(known("", "", "777"))[0].Err, tidemill.NotFound, profile.ErrNotFound)
		w.found(id, known("m-1", "m0@club.example", "777"))
	}},
	{"refuses to be opened with nonsense", "it shows at the start", func(w *world) {
		for _, n := range []int{-1, profile.MaxEach + 1} {
			if _, err := (profile.Options{Externals: n}).WithDefaults(); err == nil {
				w.Errorf("Externals: %d was taken", n)
			}
		}
	}},
}
