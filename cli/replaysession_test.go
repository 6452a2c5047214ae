package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems/crm"
)

func TestASessionAboutReplays(t *testing.T) {
	s, c := newClub(t)
	s.types("replay status", "No replays.")
	c.records = []*crm.Record{{Tenant: "club", ID: "a", Type: "member.created", State: crm.IsCompleted, Created: day}, {Tenant: "club", ID: "b", Type: "x", State: crm.IsFailed, Created: day}}
	s.types("replay start --since 2026-03-01 --dry-run", "Would handle 2 events again.")
	s.types("replay start --type x --dry-run --json", `{"count":1}`)
	s.types("replay start --since 2026-03-01 --until 2026-03-01T13:00:00Z --tenant club --id mine", "Replay mine has begun. `tidemill replay status mine` shows its progress.")
	s.types("replay status", `
ID    STATE    ASKED                 SINCE                 UNTIL                 TENANT  TYPE  QUEUED  DONE
mine  running  2026-03-01T12:00:00Z  2026-03-01T00:00:00Z  2026-03-01T13:00:00Z  club    -     0       0%
`)
	s.types("replay start --since 2026-03-01 --until 2026-03-01T13:00:00Z --tenant club --id mine", "Replay mine is known: it is done, with 2 events queued so far. `tidemill replay status mine` shows its progress.")
	s.types("replay status mine", `
replay   mine
state    done
asked    2026-03-01T12:00:00Z
since    2026-03-01T00:00:00Z
until    2026-03-01T13:00:00Z
tenant   club
type     -
queued   2 events
reached  -
done     100%
ended    2026-03-01T12:01:00Z
`)
	c.state.Closed = true
	s.fails("replay start --all --wait", "is being drained and takes no jobs")
	c.state.Closed, c.state.Paused = false, true
	if status, out, errs := s.run(t.Context(), "", "replay start --all --wait --id paused"); status != 0 || !strings.HasPrefix(out, "Replay paused is done") || !strings.Contains(errs, "crm-events is paused: after the first") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	c.replays, c.state.Paused = append(c.replays[:1], &crm.Replay{ReplayRequest: crm.ReplayRequest{ID: "gone"}, State: crm.ReplayEnded}), false
	s.fails("replay start --all --wait --id gone", "it was stopped")
	c.replays = c.replays[:1]
	s.types("replay start --all --wait", "Replay made is done: 2 events were put into the queue.")
	s.types("replay start --all --id other --wait --json", `~\{"id":"other","state":"done",.*"queued":2,.*\}`)
	s.types("replay stop mine", "Replay mine had ended before: 2 events were put into the queue.")
	s.types("replay start --all --id long --json", `~\{"id":"long","state":"running",.*\}`)
	s.types("replay stop long", "Replay long is being stopped: 0 events were put into the queue.")
	s.types("replay status long --json", `~\{"id":"long","state":"stopping",.*\}`)
	s.types("replay status --json", `
~\{"id":"mine".*
~\{"id":"made".*
~\{"id":"other".*
~\{"id":"long".*
`)
	s.fails("replay start --since 2026-03-02 --id mine", "another replay has that name")
	s.fails("replay stop nix", "there is no such replay")
	s.fails("replay status nix", "there is no such replay")
	s.fails("replay start --since 2026-03-02 --until 2026-03-01", "is not after")
	ctx, stop := context.WithCancel(t.Context())
	c.replays = append(c.replays, &crm.Replay{ReplayRequest: crm.ReplayRequest{ID: "slow"}, State: crm.ReplayStopping})
	c.begun, c.looked = false, stop // Ctrl-C
	if status, _, errs := s.run(ctx, "", "replay start --all --id slow --wait"); status != 1 || !strings.Contains(errs, "the replay goes on: `tidemill replay stop slow` ends it") {
		t.Errorf("%d %s", status, errs)
	}
}
