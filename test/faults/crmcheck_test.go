//go:build servers

package faults

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
)

// crmOutcome is the state of all events.
type crmOutcome struct {
	records map[string]crmRecord
	letters map[string]crmLetter
	audit   crm.Audit
}

// look reads sync log, dead letters and books.
func (w *crmWorld) look(within time.Duration) crmOutcome {
	w.Helper()
	o := crmOutcome{records: map[string]crmRecord{}, letters: map[string]crmLetter{}, audit: w.quiet(within)}
	for _, r := range lines[crmRecord](w, "crm/log") {
		if _, twice := o.records[r.Tenant+"/"+r.ID]; twice {
			w.Errorf("%s is in the sync log twice", r.ID)
		}
		o.records[r.Tenant+"/"+r.ID] = r
	}
	for _, l := range lines[crmLetter](w, "dead?pipeline=crm-events") {
		if _, twice := o.letters[l.Tenant+"/"+l.ID]; twice {
			w.Errorf("%s of %s has two letters", l.ID, l.Tenant)
		}
		o.letters[l.Tenant+"/"+l.ID] = l
	}
	return o
}

// judge says what is wrong with how events ended. After a kill events may be handled again:
// again is how many.
func (w *crmWorld) judge(o crmOutcome, again int) (faults []string) {
	w.Helper()
	fault := func(e *crmEvent, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s (%s): ", e.key(), e.typ)+fmt.Sprintf(format, args...)+fmt.Sprintf("; at the endpoint: %v", w.app.of(e.key()).life))
	}
	twice, completed := 0, 0
	for _, e := range w.sent {
		r, known := o.records[e.key()]
		l, dead := o.letters[e.key()]
		rec := w.app.of(e.key())
		if rec.good > 1 {
			twice += rec.good - 1
		}
		if rec.came > 0 && (rec.odd || rec.body != e.body) {
			fault(e, "the endpoint got %s", rec.body)
		}
		isApp := strings.HasPrefix(e.typ, "app.")
		switch {
		case !known:
			fault(e, "it was accepted and the sync log has nothing of it")
		case e.ends != "" && (r.State != crm.IsFailed || r.Kind != e.ends):
			fault(e, "it is %s (%s: %s), want FAILED, %s", r.State, r.Kind, r.Error, e.ends)
		case dead != (r.State == crm.IsFailed && r.Kind != "validation" && r.Kind != "skipped"):
			fault(e, "it is %s (%s: %s), and has a letter: %v", r.State, r.Kind, r.Error, dead)
		case dead && (l.Kind != r.Kind || l.Payload != "" && l.Payload != e.body):
			fault(e, "it is dead of %s (%s), and the sync log says %s; its payload is %s", l.Kind, l.Cause, r.Kind, l.Payload)
		case dead && (l.Kind == "transient" || l.Kind == "timeout" || l.Kind == "not_found") && rec.came < 3:
			fault(e, "it is dead of %s after %d requests", l.Kind, rec.came)
		case r.State == crm.IsCompleted && isApp && rec.did == 0:
			fault(e, "it is completed, and the endpoint never did it")
		case r.State == crm.IsFailed && isApp && rec.good > 0 && again == 0:
			fault(e, "it is FAILED (%s: %s), and the endpoint has taken it", r.Kind, r.Error)
		case r.State != crm.IsCompleted && r.State != crm.IsFailed:
			fault(e, "it is %s", r.State)
		}
		if r.State == crm.IsCompleted {
			completed++
		}
	}
	also := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	also(twice > again, "good answers were asked for again %d times, %d may be", twice, again)
	also(!o.audit.Balanced || int(o.audit.Letters.Held) != len(o.letters), "the books say %+v, there are %d letters", o.audit, len(o.letters))
	also(len(o.records) != len(w.sent), "the sync log has %d events, %d were accepted", len(o.records), len(w.sent))
	w.Logf("%d accepted, %d completed, %d dead, handled again %d; answers %v", len(w.sent), completed, len(o.letters), twice, w.app.said)
	return faults
}

// raised stops all instances and compares how often the profiles' counter was raised: work in
// the transaction that ends the event is done once for each run of it, whatever was killed.
func (w *crmWorld) raised(runs int) {
	w.Helper()
	for _, in := range w.instances {
		if err := in.Stop(stopsWithin); err != nil {
			w.Errorf("it stops with %v", err)
		}
	}
	want, got := 0, 0
	for _, e := range w.sent {
		if strings.HasPrefix(e.typ, "member.") {
			want += runs
		}
	}
	from := w.directory()
	for _, tenant := range crmTenants {
		profiles, err := from.List(w.Context(), tenant, uuid.Nil, profile.MaxPage)
		if err != nil {
			w.Fatal(err)
		}
		for _, p := range profiles {
			if points := string(p.Attributes["points"]); points != "" {
				n, err := strconv.Atoi(points)
				if err != nil {
					w.Fatal(err)
				}
				got += n
			}
		}
	}
	if got != want {
		w.Errorf("profiles have %d points, want %d: each of %d runs is to give one", got, want, runs)
	}
	w.struck("points that were given", 100, got)
}

// directory opens the profiles of stopped instances.
func (w *crmWorld) directory() (from profile.Directory) {
	w.Helper()
	ctx := w.Context()
	if w.postgres != nil {
		db, err := postgresdb.Open(ctx, tidemill.NewSecret(postgresURL(w.postgres.Addr, "postgres")), postgresdb.Options{Conns: 2})
		if err == nil {
			w.Cleanup(db.Close)
			var table *postgrestable.Store[tableprofile.Record]
			if table, err = postgrestable.New(ctx, db, tableprofile.Spec()); err == nil {
				from, err = tableprofile.New(table, profile.Options{})
			}
		}
		if err != nil {
			w.Fatal(err)
		}
		return from
	}
	db, err := sqlitedb.Open(ctx, connect.DatabasePath(w.instances[0].Dir), sqlitedb.Options{})
	if err == nil {
		w.Cleanup(func() { _ = db.Close() })
		var table *sqlitetable.Store[tableprofile.Record]
		if table, err = sqlitetable.New(ctx, db, tableprofile.Spec()); err == nil {
			from, err = tableprofile.New(table, profile.Options{})
		}
	}
	if err != nil {
		w.Fatal(err)
	}
	return from
}

// heals makes the endpoint healthy, and opens all dead events again.
func (w *crmWorld) heals(within time.Duration) crmOutcome {
	w.Helper()
	w.app.does(0, 0)
	w.running().Ask("dead", "replay", "--pipeline", "crm-events", "--json")
	o := w.look(within)
	for key, l := range o.letters {
		if l.Kind != "business" && l.Kind != "not_found" {
			w.Errorf("%s is dead of %s (%s) although the endpoint is well", key, l.Kind, l.Cause)
		}
	}
	return o
}

// replays requests everything twice under one name, from every instance, and checks that each
// event was handled once more.
func (w *crmWorld) replays(within time.Duration) {
	w.Helper()
	from := w.began.Add(-time.Minute).UTC().Format(time.RFC3339)
	request := fmt.Sprintf(`{"id":"again","since":%q,"until":%q}`, from, time.Now().UTC().Format(time.RFC3339Nano))
	created := 0
	for range 3 {
		status, b := w.api(http.MethodPost, "crm/replays", request)
		switch status {
		case http.StatusCreated:
			created++
		case http.StatusOK:
		default:
			w.Fatalf("replay: %d %s", status, b)
		}
	}
	if created != 1 {
		w.Errorf("a request that was sent three times was made %d times", created)
	}
	o := w.look(within)
	wrong, n := 0, 0
	for _, e := range w.sent {
		if !strings.HasPrefix(e.typ, "app.") {
			continue
		}
		want := 1
		if e.ends != "" {
			want = 0
		}
		if rec := w.app.of(e.key() + "~again"); rec.good != want || rec.came == 0 {
			if wrong++; wrong < 10 {
				w.Errorf("%s was replayed %d times, of %d requests (%s)", e.key(), rec.good, rec.came, o.records[e.key()].State)
			}
		} else {
			n += want
		}
	}
	if wrong > 0 {
		w.Errorf("%d replays are wrong", wrong)
	}
	w.struck("events replayed", len(w.sent)/2, n)
}
