//go:build servers

package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/test/process"
	"github.com/tidemill/tidemill/test/promise"
)

// audit is the product's own audit.
type audit struct {
	Accepted, Delivered, Skipped, Dead, Lost int64
	InFlight                                 int64 `json:"in_flight"`
	Balanced                                 bool
	Faults                                   []string
	Stored                                   int64
	Letters                                  struct{ Put, Held, Replayed, Discarded int64 } `json:"dead_letters"`
}

func (w *world) audit() (audit, error) { return auditOf[audit](w, "analytics") }

// quiet waits until nothing is in flight, by looking everywhere: the stream, hand-outs, the
// outbox, the product's own books.
func (w *world) quiet(within time.Duration) audit {
	w.Helper()
	began := time.Now()
	db := w.sql()
	defer db.Close(context.Background())
	for deadline := began.Add(within); ; time.Sleep(50 * time.Millisecond) { // between two polls of other processes
		waiting := w.int("XLEN", stream)
		pending, kept, outbox := w.pending(), w.int("LLEN", "processor:failed_merges"), int64(0)
		if err := db.QueryRow(context.Background(), `SELECT count(*) FROM `+outboxTable).Scan(&outbox); err != nil {
			w.Fatal(err)
		}
		var a audit
		var err error
		if waiting+pending+kept+outbox == 0 {
			if a, err = w.audit(); err == nil && a.InFlight == 0 {
				w.Logf("quiet after %v: %+v", time.Since(began).Round(time.Millisecond), a)
				return a
			}
		}
		if time.Now().After(deadline) {
			w.Fatalf("not quiet after %v: %d in the stream, %d pending, %d merges kept, %d overrides not relayed; audit %+v %v", within, waiting, pending, kept, outbox, a, err)
		}
	}
}

// pending is how many entries are handed out.
func (w *world) pending() int64 {
	list, err := w.do("XPENDING", stream, "processor-group").ToArray()
	if err != nil || len(list) == 0 {
		return 0
	}
	n, _ := list[0].AsInt64()
	return n
}

// ask queries ClickHouse past every link, and passes on each line of JSON.
func (w *world) ask(query string, line func([]byte)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	u := "http://" + w.clickhouse.Addr + "/?" + url.Values{"database": {w.database}, "default_format": {"JSONEachRow"}, "output_format_json_quote_64bit_integers": {"0"}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u, strings.NewReader(query))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("X-ClickHouse-User", "default")
	r.Header.Set("X-ClickHouse-Key", w.env["CLICKHOUSE_PASSWORD"])
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.Fatalf("%s: %s %.500s %v", query, resp.Status, b, err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line(lines.Bytes())
	}
}

// stored is a row as ClickHouse has it.
type stored struct {
	ID         uuid.UUID `json:"event_id"`
	Name       string    `json:"event_name"`
	Type       string    `json:"event_type"`
	Distinct   string    `json:"distinct_id"`
	Person     uuid.UUID `json:"person_id"`
	Properties string    `json:"properties"`
	Browser    string    `json:"browser"`
	Width      int       `json:"screen_width"`
	Timestamp  int64     `json:"t"`
}

// letter is a dead letter, as Redis has it.
type letter struct{ id, reason, all string }

func (w *world) letters() map[string][]letter {
	w.Helper()
	out := map[string][]letter{}
	entries, err := w.do("XRANGE", "events:dlq", "-", "+").AsXRange()
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		l := letter{id: e.FieldValues["id"], reason: e.FieldValues["reason"]}
		for _, v := range e.FieldValues {
			l.all += v + "\n"
		}
		out[l.id] = append(out[l.id], l)
	}
	return out
}

// arrival is the checker's result, for tests that look closer.
type arrival struct {
	rows    map[*event]int // events that are there
	missing []*event       // confirmed and nowhere
	letters int
	raw     int64 // rows in the table, including duplicates not merged yet
}

// check compares everything durable with what was sent.
func (w *world) check(a audit, may allowance) arrival {
	w.Helper()
	got, violations := w.compare(a, may)
	w.complain(violations)
	return got
}

// complain reports the first twenty violations.
func (w *world) complain(violations []string) {
	w.Helper()
	for _, v := range violations[:min(len(violations), 20)] {
		w.Error(v)
	}
	if more := len(violations) - 20; more > 0 {
		w.Errorf("and %d more", more)
	}
}

// compare finds differences from what was sent. It knows the facts, none of the product's
// rules.
func (w *world) compare(a audit, may allowance) (got arrival, violations []string) {
	w.Helper()
	fault := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }
	var events []*event
	for _, l := range w.loads {
		events = append(events, l.events...)
	}
	byID, byN := map[uuid.UUID]*event{}, map[int]*event{}
	for _, e := range events {
		byN[e.N] = e
		if e.ID != uuid.Nil {
			byID[e.ID] = e
		}
	}
	of := owners(events)
	got = arrival{rows: map[*event]int{}}

	ids := map[uuid.UUID]bool{}
	w.ask(`SELECT event_id, event_name, event_type, distinct_id, person_id, properties, browser, screen_width, toUnixTimestamp64Milli(timestamp) AS t FROM events_resolved`, func(line []byte) {
		var r stored
		if err := json.Unmarshal(line, &r); err != nil {
			w.Fatalf("%v: %s", err, line)
		}
		var props struct{ N *int }
		e := byID[r.ID]
		if e == nil && json.Unmarshal([]byte(r.Properties), &props) == nil && props.N != nil {
			if e = byN[*props.N]; e != nil && e.ID != uuid.Nil {
				e = nil
			}
		}
		if e == nil {
			fault("a row of an event that nobody sent: %s", line)
			return
		}
		if ids[r.ID] {
			fault("the view shows event %v twice", r.ID)
		}
		ids[r.ID] = true
		got.rows[e]++
		at := e.At.UnixMilli()
		if e.untimed && len(e.entries) > 0 {
			ms, _, _ := strings.Cut(e.entries[0], "-")
			at, _ = strconv.ParseInt(ms, 10, 64)
		} else if e.untimed && r.Timestamp >= e.first.UnixMilli()-1000 { // Redis accepted it, and its answer was lost
			at = r.Timestamp
		}
		if e.kind.dead() || r.Name != e.Name || r.Distinct != e.Distinct || r.Timestamp != at || r.Properties != e.props || !e.endpoint && (r.Browser != "Firefox" || r.Width != 65535) {
			fault("stored as %s\n\tof %v, props %s", line, e, e.props)
		}
		if want := promise.PersonID(project, of.Of(e.Distinct)); r.Person != want {
			fault("%v belongs to person %v, not %v (%s)", e, r.Person, want, of.Of(e.Distinct))
		}
	})
	count := func(query string) (n int64) {
		w.ask(query, func(line []byte) {
			var c struct {
				N int64 `json:"n"`
			}
			if err := json.Unmarshal(line, &c); err != nil {
				w.Fatalf("%v: %s", err, line)
			}
			n = c.N
		})
		return n
	}
	final := count(`SELECT count() AS n FROM events FINAL`)
	got.raw = count(`SELECT count() AS n FROM events`)
	if final != int64(len(ids)) {
		fault("events FINAL has %d rows, the view %d", final, len(ids))
	}

	letters := w.letters()
	for _, l := range letters {
		got.letters += len(l)
	}
	lettersOf := 0
	for _, e := range events {
		dead := 0
		for _, id := range e.entries {
			of := letters[id]
			if len(of) > 1 {
				fault("entry %s is dead %d times: %v", id, len(of), e)
			}
			if len(of) == 1 {
				dead++
				for _, v := range e.fields {
					if v != "" && !strings.Contains(of[0].all, v) {
						fault("the letter of entry %s does not have %q: %q", id, v, of[0].all)
					}
				}
				if e.kind.dead() && of[0].reason != "validation" {
					fault("the letter of entry %s died of %s: %v", id, of[0].reason, e)
				}
			}
		}
		lettersOf += dead
		if promise.Arrived(e, e.kind.dead(), e.confirmed, got.rows[e], dead, fault) {
			got.missing = append(got.missing, e)
		}
	}
	if unknown := got.letters - lettersOf; unknown > w.unanswered() {
		fault("%d letters are of nothing that was sent", unknown)
	}
	for _, e := range got.missing {
		if may.lose == nil || !may.lose(e) {
			fault("confirmed and lost: %v", e)
		}
	}
	w.checkPersons(slices.DeleteFunc(slices.Clone(events), func(e *event) bool { return slices.Contains(got.missing, e) }), events, fault)
	if !may.forget {
		w.checkBooks(a, events, got, fault)
	}
	return got, violations
}

// allowance is what a test allows in addition to every event exactly once.
type allowance struct {
	lose   func(*event) bool // may be missing, as it was removed from the stream
	forget bool              // the books were destroyed
}

// finish ends the load, waits until all is quiet, replays the dead letters that the fault
// caused, and checks.
func (w *world) finish(within time.Duration, may allowance) (audit, arrival) {
	w.Helper()
	for _, l := range w.loads {
		l.stop()
	}
	a := w.quiet(within)
	var of struct{ Count int }
	out := w.running().Ask("dead", "replay", "--kind", "transient,timeout,unknown,partner_error,credentials,rate_limit,internal,not_found,business", "--json")
	if err := json.Unmarshal(out, &of); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	if w.replayed = of.Count; of.Count > 0 {
		w.until(within, "all that died of the fault is replayed", func() bool {
			for _, of := range w.letters() {
				for _, l := range of {
					if l.reason != "validation" {
						return false
					}
				}
			}
			return true
		})
		w.Logf("%d died of the fault and were replayed", of.Count)
		a = w.quiet(within)
	}
	return a, w.check(a, may)
}

// running is a running instance.
func (w *world) running() *process.Instance {
	w.Helper()
	for _, in := range slices.Backward(w.instances) {
		if in.Runs() {
			return in
		}
	}
	w.Fatal("no instance runs that could be asked")
	return nil
}

// unanswered is how many additions to the stream had no answer.
func (w *world) unanswered() (n int) {
	for _, l := range w.loads {
		for _, e := range l.events {
			if !e.endpoint {
				n += e.unknown
			}
		}
	}
	return n
}

// checkBooks compares the product's own numbers with the checker's.
func (w *world) checkBooks(a audit, events []*event, got arrival, fault func(string, ...any)) {
	w.Helper()
	var least int64 // entries that are surely in the stream
	for _, e := range events {
		switch {
		case !e.endpoint:
			least += int64(e.confirmed)
		case e.confirmed > 0:
			least++ // ingest knows it the second time
		}
	}
	w.Logf("raw rows %d of %d events, %d letters", got.raw, len(got.rows), got.letters)
	if most := least + int64(w.unanswered()); a.Accepted < least || a.Accepted > most {
		fault("the audit says %d accepted, %d were confirmed and at most %d can be", a.Accepted, least, most)
	}
	if a.Stored != int64(len(got.rows)) {
		fault("the audit says %d stored, the checker counts %d", a.Stored, len(got.rows))
	}
	if a.Letters.Held != int64(got.letters) {
		fault("the audit says %d letters are held, the stream has %d", a.Letters.Held, got.letters)
	}
	if a.Lost == 0 && !a.Balanced {
		fault("the books do not balance: %+v", a)
	}
	if a.Accepted != a.Delivered+a.Skipped+a.Dead+a.Lost+a.InFlight {
		fault("accepted is not the sum of the rest: %+v", a)
	}
}
