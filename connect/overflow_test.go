package connect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/analytics/analyticsconfig"
)

// audited asks for the books until nothing is in flight but what is expected to wait.
func audited(t *testing.T, in *Instance, waiting int) (accepted, delivered int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		var got struct {
			Balanced bool
			Systems  []struct {
				Accepted, Delivered int
				InFlight            int `json:"in_flight"`
				Faults              []string
			}
		}
		if err := json.Unmarshal(get(in, "/api/v1/audit").Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !got.Balanced {
			t.Fatalf("audit: %+v", got)
		}
		if s := got.Systems[0]; s.InFlight == waiting {
			return s.Accepted, s.Delivered
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v: want %d in flight", got.Systems[0], waiting)
		}
	}
}

func TestAProjectThatDominatesHasAPipelineOfItsOwn(t *testing.T) {
	c := settings(t, "analytics.overflow", "loud")
	c.Projects = []config.Project{{Name: "loud", Key: tidemill.NewSecret("loud-key")}, {Name: "quiet", Key: tidemill.NewSecret("quiet-key")}}
	send := func(in *Instance, key string, n int) {
		t.Helper()
		for range n {
			r := httptest.NewRequest(http.MethodPost, "/batch/", strings.NewReader(`{"api_key":"`+key+`","batch":[{"event":"e","distinct_id":"u"}]}`))
			w := httptest.NewRecorder()
			in.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	}
	in := open(t, c, Options{})
	stop := running(t, in, nil)
	pipelines := in.systems[0].Pipelines()
	overflow := pipelines[len(pipelines)-1]
	if overflow.Name() != "analytics.overflow" {
		t.Fatalf("the last pipeline is %s", overflow.Name())
	}
	if err := overflow.Pause(); err != nil {
		t.Fatal(err)
	}
	send(in, "loud-key", 5)
	send(in, "quiet-key", 3)
	if accepted, delivered := audited(t, in, 5); accepted != 8 || delivered != 3 {
		t.Errorf("while the loud one waits: %d accepted, %d delivered; want 8 and 3", accepted, delivered)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}

	// The setting is gone; what waits from before is not.
	analyticsconfig.Of(c).Overflow = nil
	in = open(t, c, Options{})
	stop = running(t, in, nil)
	if accepted, delivered := audited(t, in, 0); accepted != 8 || delivered != 8 {
		t.Errorf("after a restart without the setting: %d accepted, %d delivered; want 8 and 8", accepted, delivered)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
}
