package console_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/state/trail"
)

// changed writes a change that was made.
func (w *world) changed(operation, thing string) {
	w.Helper()
	seq, err := w.trail.Begin(w.Context(), trail.Entry{At: time.Now(), Who: "eve", Role: "admin", Operation: operation, Thing: thing, Request: "req-" + thing})
	if err == nil {
		err = w.trail.End(w.Context(), seq, trail.End{Ended: time.Now(), Outcome: trail.Done, Status: 200})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// TestThePageOfInstancesShowsWhoSteeredThem: their pipelines, and what is read of the configuration.
func TestThePageOfInstancesShowsWhoSteeredThem(t *testing.T) {
	w := newWorld(t)
	w.changed("pausePipeline", "bridge")
	w.changed("reloadConfig", "")
	w.changed("pauseQueue", "q")
	said := w.Page("/console/instances")
	w.Has(said, "Last changes", "eve: pausePipeline bridge", "eve: reloadConfig")
	if strings.Contains(said, "eve: pauseQueue") {
		t.Error("it shows what was done to queues")
	}
	w.Who.Rights = caller.For(caller.Viewer, "crm")
	if strings.Contains(w.Page("/console/instances"), "eve:") {
		t.Error("who sees one system is shown what concerns all")
	}
}

// unending is a trail that has as many entries as are asked for, of what is for admins.
type unending struct{ trail.Trail }

func (unending) List(_ context.Context, f trail.Filter) ([]trail.Entry, error) {
	return slices.Repeat([]trail.Entry{{Seq: 1_000_000, Operation: "addUser", Thing: f.Thing}}, f.Most), nil
}

func TestThePageSaysWhereOlderChangesWereNotLookedFor(t *testing.T) {
	w := newWorld(t, func(w *world, a *admin.Parts, _ *console.Parts) { a.Trail = unending{w.trail} })
	w.fill("")
	w.Who.Rights = caller.All(caller.Viewer)
	said := w.Page("/console/queues/q")
	if w.Has(said, "The newest 20,000 entries of the audit trail were looked at"); strings.Contains(said, "Nobody changed it") {
		t.Error("it says that nobody changed it")
	}
}
