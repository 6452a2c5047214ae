package profiletest

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill/state/profile"
)

// Bench measures a store in batches of 100, each ask with an external id and an email.
func Bench(b *testing.B, open func(b *testing.B) profile.Store) {
	const batch, active = 100, 20_000
	asks := func(from int) []profile.Ask {
		as := make([]profile.Ask, batch)
		for i := range as {
			n := uint32(from+i) * 2654435761 // spread over the keys
			as[i] = who(fmt.Sprintf("m-%08x", n), fmt.Sprintf("member-%08x@club.example", n), "")
		}
		return as
	}
	resolve := func(b *testing.B, s profile.Store, from int) []profile.Answer {
		answers := make([]profile.Answer, batch)
		if err := s.Resolve(b.Context(), asks(from), answers); err != nil {
			b.Fatal(err)
		}
		for _, a := range answers {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
		}
		return answers
	}
	rate := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "profiles/s")
	}
	b.Run("create", func(b *testing.B) {
		s := open(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			resolve(b, s, i*batch)
		}
		rate(b)
	})
	known := func(b *testing.B) (s profile.Store, all []profile.Answer) {
		s = open(b)
		for from := 0; from < active; from += batch {
			all = append(all, resolve(b, s, from)...)
		}
		b.ReportAllocs()
		return s, all
	}
	b.Run("known", func(b *testing.B) {
		s, _ := known(b)
		for i := 0; b.Loop(); i++ {
			resolve(b, s, i*batch%active)
		}
		rate(b)
	})
	b.Run("update", func(b *testing.B) {
		s, all := known(b)
		cs := make([]profile.Change, batch)
		for i := 0; b.Loop(); i++ {
			for k := range cs {
				a := all[(i*batch+k)%active]
				cs[k] = profile.Change{Tenant: tenant, Profile: a.Profile, Event: fmt.Sprint(i), At: start.Add(time.Duration(i) * time.Millisecond),
					Attributes: []profile.Attribute{set("plan", `"gold"`), set("city", `"Kiel"`), once("first", `"2026-03-01"`), add("spent", "12.50")}}
			}
			if err := s.Update(b.Context(), cs); err != nil {
				b.Fatal(err)
			}
		}
		rate(b)
	})
}
