//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/project"
)

const (
	calls   = 10_000 // of each SDK
	perUser = 10     // of these; send.mjs says which
)

var sdks = []string{"posthog", "segment"}

func TestUnmodifiedSDKsDeliverEverything(t *testing.T) {
	in := newInstance(t)
	in.Start()
	sendAll(t, in, 0)
	check(t, in)
}

// TestKilledFiftyTimes ends the process without notice fifty times while both SDKs send.
func TestKilledFiftyTimes(t *testing.T) {
	t.Parallel()
	kills := 50
	if s := os.Getenv("TIDEMILL_KILLS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	in := newInstance(t)
	in.Start()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		sendAll(t, in, time.Duration(kills)*7*time.Millisecond)
	}()
	for n := range kills {
		select {
		case <-time.After(20*time.Millisecond + time.Duration(rnd.Int64N(int64(600*time.Millisecond)))):
		case <-sent:
			t.Fatalf("the SDKs were done after %d kills: they send too fast for this test", n)
		}
		in.Kill()
		in.Start()
	}
	<-sent
	check(t, in)
}

func sendAll(t *testing.T, in *instance, pause time.Duration) {
	var g sync.WaitGroup
	for _, sdk := range sdks {
		g.Go(func() {
			if err := send(t.Context(), sdk, in.Addr, calls, pause); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
}

// check compares everything that can be queried with what the SDKs were told to send.
func check(t *testing.T, in *instance) {
	t.Helper()
	a := in.settled()
	if want := len(sdks) * calls; a.Accepted != want || a.Delivered != want || a.Dead+a.Skipped+a.Lost != 0 || !a.Balanced {
		t.Errorf("audit: %+v, want %d accepted and delivered", a, want)
	}
	shop := project.ID("shop")
	got := map[string]int{}
	ids := map[string]bool{}
	for line := range bytes.Lines(in.Ask("events", "--project", "shop", "-n", "0", "--json")) {
		var e struct {
			ID       string `json:"event_id"`
			Name     string `json:"event_name"`
			Distinct string `json:"distinct_id"`
			Person   string `json:"person_id"`
			Props    struct {
				N *int `json:"n"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if ids[e.ID] {
			t.Errorf("event %s is there twice", e.ID)
		}
		ids[e.ID] = true
		n := ""
		if e.Props.N != nil && (e.Name == "viewed" || e.Name == "bought") {
			n = fmt.Sprint(*e.Props.N)
		}
		got[fmt.Sprint(e.Name, " ", n, " ", e.Distinct, " ", e.Person)]++
	}
	want := map[string]int{}
	for _, sdk := range sdks {
		for u := range calls / perUser {
			user, anonymous := fmt.Sprintf("%s-user-%d", sdk, u), fmt.Sprintf("%s-anon-%d", sdk, u)
			id := person.ID(person.Ref{Project: shop, Distinct: user})
			for step := range perUser {
				name, n, distinct := "bought", fmt.Sprint(u*perUser+step), user
				switch {
				case step < 4:
					name, distinct = "viewed", anonymous
				case step < 6: // one of each, in the SDK's order
					name, n = [2]string{"$create_alias", "$identify"}[step-4], ""
				}
				want[fmt.Sprint(name, " ", n, " ", distinct, " ", id)]++
			}
		}
	}
	wrong := 0
	for k, n := range want {
		if got[k] != n {
			if wrong++; wrong <= 10 {
				t.Errorf("event %q is there %d times, want %d", k, got[k], n)
			}
		}
	}
	for k := range got {
		if want[k] == 0 {
			if wrong++; wrong <= 20 {
				t.Errorf("event %q was never sent so", k)
			}
		}
	}
	for _, sdk := range sdks {
		for u := 0; u < calls/perUser; u += 97 {
			checkPerson(t, in, shop, sdk, u)
		}
	}
}

func checkPerson(t *testing.T, in *instance, shop uuid.UUID, sdk string, u int) {
	t.Helper()
	user, anonymous := fmt.Sprintf("%s-user-%d", sdk, u), fmt.Sprintf("%s-anon-%d", sdk, u)
	var p struct {
		ID         uuid.UUID
		Distinct   []string `json:"distinct_ids"`
		Properties map[string]any
		Identified bool `json:"is_identified"`
	}
	if err := json.Unmarshal(in.Ask("person", "show", anonymous, "--project", "shop", "--json"), &p); err != nil {
		t.Fatal(err)
	}
	named := u*perUser + 5
	if sdk == "segment" {
		named = u*perUser + 4
	}
	if p.ID != person.ID(person.Ref{Project: shop, Distinct: user}) || !p.Identified ||
		!slices.Equal(p.Distinct, []string{anonymous, user}) || p.Properties["plan"] != fmt.Sprintf("plan-%d", named) {
		t.Errorf("person of %s: %+v", anonymous, p)
	}
}
