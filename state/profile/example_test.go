package profile_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
)

func Example() {
	ctx := context.Background()
	store, err := tableprofile.Memory(profile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}

	// A member signs up; a newsletter knows only the email, in another spelling.
	asks := []profile.Ask{
		{Tenant: "club", Identities: profile.Identities{External: "m-1", Email: "ann@club.example"}, Create: true},
		{Tenant: "club", Identities: profile.Identities{Email: "Ann@Club.example"}},
	}
	answers := make([]profile.Answer, len(asks))
	if err := store.Resolve(ctx, asks, answers); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answers[0].New, answers[1].New, answers[0].Profile == answers[1].Profile)

	err = store.Update(ctx, []profile.Change{{
		Tenant: "club", Profile: answers[0].Profile, Event: "e-1", At: time.Now(),
		Attributes: []profile.Attribute{
			{Op: profile.Set, Key: "plan", Value: []byte(`"gold"`)},
			{Op: profile.Add, Key: "spent", Value: []byte("12.50")},
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := store.Find(ctx, "club", profile.Identity{Kind: profile.Email, Value: "ann@club.example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", p.Object())
	// Output:
	// true false true
	// {"plan":"gold","spent":12.50}
}
