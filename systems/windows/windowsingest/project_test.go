package windowsingest

import (
	"maps"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
)

// rivals are two more projects, each with a key of its own.
func (d *testEndpoint) rivals(names ...string) {
	d.t.Helper()
	for _, name := range names {
		if err := d.projects.Ensure(d.t.Context(), project.Project{ID: project.ID(name), Name: name}, project.HashOf(tidemill.NewSecret("key-of-"+name))); err != nil {
			d.t.Fatal(err)
		}
	}
}

func TestProjectsDoNotShareABatchID(t *testing.T) {
	each(t, func(t *testing.T, d *testEndpoint) {
		d.rivals("rival", "third")
		rival, third := header{"X-API-Key": "key-of-rival"}, header{"X-API-Key": "key-of-third"}
		states := func(whose header, records int, state window.State) {
			t.Helper()
			w := d.ask("GET", Path+"/"+batch, "", whose)
			says(t, w, `"records":`+string(rune('0'+records))+`,"states":{"`+string(state)+`":1}`)
		}
		want(t, d.post(`[{"globalEventId":1,"numMentions":1},{"globalEventId":2}]`), 202, counted(2, 0))
		want(t, d.ask("GET", Path+"/"+batch, "", rival), 404, "not_found")
		want(t, d.ask("POST", Path+"/events", `{"globalEventId":1,"numMentions":7}`, rival), 202, counted(1, 0)) // no duplicate of the other's
		for name, want := range map[string]map[string]string{
			"club":  {"event 1 ": `{"globalEventId":1,"numMentions":1}`, "event 2 ": `{"globalEventId":2}`},
			"rival": {"event 1 ": `{"globalEventId":1,"numMentions":7}`},
		} {
			if got := d.keptBy(name, batch); !maps.Equal(got, want) {
				t.Errorf("%s has %v, want %v", name, got, want)
			}
		}
		states(nil, 2, window.Active)
		states(rival, 1, window.Active)
		want(t, d.ask("GET", Path+"/"+batch, "", third), 404, "not_found")

		// A window is ended for the project that ends it.
		if ok, err := d.windows.CloseNow(t.Context(), of("rival", batch)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		states(rival, 1, window.Ready)
		states(nil, 2, window.Active)
		d.idle()
	})
}

func TestAnExpectedCountIsOneProjects(t *testing.T) {
	each(t, func(t *testing.T, d *testEndpoint) {
		d.rivals("rival")
		rival := header{"X-API-Key": "key-of-rival"}
		sweep := func() int {
			t.Helper()
			swept, err := d.windows.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return swept.Closed
		}
		want(t, d.ask("POST", Path+"/events", event(1), header{"X-Batch-Count": "2"}), 202, counted(1, 0))
		want(t, d.ask("POST", Path+"/events", event(2), rival), 202, counted(1, 0)) // it completes nothing
		if n := sweep(); n != 0 {
			t.Errorf("%d windows are closed by another project's record", n)
		}
		want(t, d.ask("POST", Path+"/events", event(3), header{"X-API-Key": "key-of-rival", "X-Batch-Count": "2"}), 202, counted(1, 0))
		if n := sweep(); n != 1 {
			t.Errorf("%d windows are closed, want the rival's", n)
		}
		says(t, d.ask("GET", Path+"/"+batch, "", rival), `"states":{"ready":1}`)
		says(t, d.ask("GET", Path+"/"+batch, "", nil), `"states":{"active":1}`)
	}, func(o *Options) { o.Expect = "X-Batch-Count" })
}

func TestFilesAreTheirSendersProjects(t *testing.T) {
	each(t, func(t *testing.T, d *testEndpoint) {
		d.rivals("rival")
		file := string(gdelttest.Batch{Stamp: batch, Events: 3}.Export())
		for _, key := range []string{key, "key-of-rival"} {
			w := d.ask("POST", Path+"/files?name="+batch+".export.CSV", file, header{"X-API-Key": key})
			says(t, w, `"batch":"`+batch+`","accepted":3,"duplicate":0`)
		}
		for _, name := range []string{"club", "rival"} {
			if n := len(d.keptBy(name, batch)); n != 3 {
				t.Errorf("%s has %d records, want 3", name, n)
			}
		}
	})
}

func TestWithoutKeysAllIsOneProjects(t *testing.T) {
	for want, id := range map[string]func(*Options){
		"default": func(o *Options) { o.Projects = nil },
		"news":    func(o *Options) { o.Projects, o.Project = nil, project.ID("news") },
	} {
		d := newEndpoint(t, id)
		if w := d.post(event(1)); w.Code != 202 || len(d.keptBy(want, batch)) != 1 {
			t.Errorf("%d %s: the project %s has %v", w.Code, w.Body, want, d.keptBy(want, batch))
		}
		says(t, d.ask("GET", Path+"/"+batch, "", nil), `"records":1`)
	}
}
