package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/trail"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
)

// fill writes so many entries of an operation.
func fill(t *testing.T, tr trail.Trail, n int, operation string) {
	t.Helper()
	for range n {
		if _, err := tr.Begin(t.Context(), trail.Entry{At: time.Now(), Who: "nobody", Operation: operation}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheLastChangesAreFoundBehindThousandsOfLogins(t *testing.T) {
	kept := tabletrail.Memory()
	d := withTrail(t, kept)
	d.post("queues/q/pause", "")
	d.addUser("ada", "viewer")
	ada := d.enter(access.Proof{Name: "ada", Password: phrase})
	fill(t, kept, 3000, "login")
	d.post("queues/q/resume", "")
	fill(t, kept, 3000, "login")
	for query, want := range map[string]string{"": "resumeQueue pauseQueue", "?thing=q": "resumeQueue pauseQueue", "?operation=pauseQueue": "pauseQueue", "?max=1": "resumeQueue"} {
		if got := d.operations(d.good(d.as(ada, "GET", "changes"+query, ""))); got != want {
			t.Errorf("changes%s has %s, want %s", query, got, want)
		}
	}
	if got := d.operations(d.get("changes")); got != "resumeQueue addUser pauseQueue" {
		t.Errorf("an admin sees %s", got)
	}
	if end := d.lastLine("changes", nil); end.Items != 3 || end.Looked != 0 {
		t.Errorf("the listing ends with %+v", end)
	}
}

func TestTheLastChangesOfTheLimitOfAnOwner(t *testing.T) {
	d := withTrail(t, tabletrail.Memory())
	for _, to := range []string{`{"tenants":{"shop":{"per_second":1}}}`, `{"tenants":{"blog":{"per_second":2}}}`, `{"ordered":true}`, `{"tenants":{"shop":{"per_second":3}}}`, `{"tenants":{"shop":null}}`, `{"tenants":{"shop":{}}}`} {
		d.post("queues/q/settings", to)
	}
	d.post("queues/q/pause", "")
	for owner, want := range map[string]string{"shop": "[map[] none map[per_second:3] map[per_second:1]]", "blog": "[map[per_second:2]]", "news": "[]"} {
		var after []any
		for _, line := range lines(d.get("changes?owner=" + owner)) {
			of, _ := d.field(line, "after").(map[string]any)["tenants"].(map[string]any)
			if limit, has := of[owner]; has {
				after = append(after, limit)
			} else {
				after = append(after, "none")
			}
		}
		if got := fmt.Sprint(after); got != want {
			t.Errorf("of %s: %s, want %s", owner, got, want)
		}
	}
}

// operations are those of changes, in their order.
func (d *desk) operations(listing string) string {
	d.Helper()
	var got []string
	for _, line := range lines(listing) {
		got = append(got, d.field(line, "operation").(string))
	}
	return strings.Join(got, " ")
}

// lastLine is what the last line of a listing says.
func (d *desk) lastLine(path string, who *http.Cookie) operation.Whole {
	d.Helper()
	w := d.ask("GET", path, "")
	if who != nil {
		w = d.as(who, "GET", path, "")
	}
	all := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
	var end operation.ListingEnd
	if err := json.Unmarshal([]byte(all[len(all)-1]), &end); err != nil || end.Whole == nil {
		d.Fatalf("%v: %s", err, all[len(all)-1])
	}
	return *end.Whole
}

func TestWhereTheLastChangesWereNotLookedForAmongAllItIsSaid(t *testing.T) {
	kept := unending{tabletrail.Memory()}
	d := newDesk(t, admin.Parts{Config: constant(loaded(t)), Common: &answer.Common{}, Trail: kept, People: access.Options{Store: tableaccess.Memory(), Cost: access.Cost{KiB: 64, Passes: 1}}})
	d.addUser("ada", "viewer")
	if end := d.lastLine("changes?thing=x", d.enter(access.Proof{Name: "ada", Password: phrase})); end.Items != 0 || end.Looked != 20_000 {
		t.Errorf("the listing ends with %+v", end)
	}
}

// unending is a trail that has as many entries as are asked for, of what is for admins.
type unending struct{ trail.Trail }

func (unending) List(_ context.Context, f trail.Filter) ([]trail.Entry, error) {
	if f.Most < 1 {
		return nil, errors.New("no entry is asked for")
	}
	all := make([]trail.Entry, f.Most)
	for i := range all {
		all[i] = trail.Entry{Seq: 1_000_000, Operation: "addUser", Thing: f.Thing}
	}
	return all, nil
}
