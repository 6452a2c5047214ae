//go:build servers

package faults

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// addWaiting adds events that no instance works on meanwhile, and returns them.
func (w *world) addWaiting(n int) []*event {
	w.Helper()
	l := w.startLoad(loadOptions{Rate: 2000, Door: -1, Plain: true, Dup: -1})
	w.until(10*time.Second, "events are added", func() bool { return l.confirmed.Load() >= int64(n) })
	l.stop()
	return l.events
}

func entriesOf(events []*event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.entries...)
	}
	return ids
}

// TestForeignTrimming has others remove entries: unread ones, and handed-out ones. Each is
// counted as lost.
func TestForeignTrimming(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		in := w.run("one")[0]
		l := w.startLoad(loadOptions{})
		w.pass(time.Second)
		l.stop()
		w.quiet(afterFault)
		if err := in.Stop(stopsWithin); err != nil {
			w.Error(err)
		}
		unread := w.addWaiting(600)
		trimmed := w.int("XTRIM", stream, "MAXLEN", "=", "500")
		one := w.addWaiting(1) // its producer trims
		before := w.int("XLEN", stream)
		if _, err := w.do(append([]string{"XADD", stream, "MAXLEN", "=", "400", "*"}, one[0].fields...)...).ToString(); err != nil {
			w.Fatal(err)
		}
		one[0].confirmed++
		trimmed += before + 1 - w.int("XLEN", stream)
		in.Start()
		w.quiet(afterFault)

		w.clickhouse.Freeze()
		held := w.addWaiting(500)
		w.until(10*time.Second, "entries are handed out", func() bool { return w.pending() >= 300 })
		in.Kill()
		handed := w.pending()
		ids := entriesOf(held)[:handed/2]
		w.rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		deleted := w.int(append([]string{"XDEL", stream}, ids[:50]...)...)
		w.clickhouse.Thaw()
		in.Start()
		w.startLoad(loadOptions{})
		w.pass(time.Second)

		a, got := w.finish(afterClaim, allowance{lose: func(e *event) bool {
			return slices.Contains(unread, e) || slices.Contains(one, e) || slices.Contains(held, e)
		}})
		if a.Lost != trimmed+deleted {
			w.Errorf("the audit says %d lost; %d were trimmed unread, %d deleted while handed out", a.Lost, trimmed, deleted)
		}
		if n := int64(len(got.missing)); n > trimmed+deleted || n < trimmed {
			w.Errorf("%d events are missing; %d were trimmed, %d deleted", n, trimmed, deleted)
		}
		w.struck("trimmed unread", 100, int(trimmed))
		w.struck("deleted while handed out", 50, int(deleted))
	})
}

// TestTrimmedUnderLoad has another program trim the stream far too short while the instance
// falls behind. Events in the instance's memory are not lost, and not counted so.
func TestTrimmedUnderLoad(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.run("one")
		l := w.startLoad(loadOptions{Plain: true, Dup: -1, Door: 50})
		trimmed := int64(0)
		for range 4 {
			w.pass(w.between(300*time.Millisecond, 700*time.Millisecond))
			w.postgres.Freeze()
			w.until(5*time.Second, "entries are handed out", func() bool { return w.pending() >= 50 })
			trimmed += w.int("XTRIM", stream, "MAXLEN", "=", "20")
			w.pass(claim / 2) // leases are renewed meanwhile
			w.postgres.Thaw()
		}
		l.phase.Store(1)
		w.pass(time.Second)
		a, got := w.finish(afterClaim, allowance{lose: func(e *event) bool { return e.phase == 0 }})
		if a.Lost != int64(len(got.missing)) {
			w.Errorf("the audit says %d lost, %d are missing of %d trimmed", a.Lost, len(got.missing), trimmed)
		}
		w.struck("entries trimmed under load", 100, int(trimmed))
	})
}

func TestEverythingInRedisIsGone(t *testing.T) { t.Parallel(); destroyed(t, true, true, "FLUSHALL") }
func TestTheStreamIsGone(t *testing.T)         { t.Parallel(); destroyed(t, true, false, "DEL", stream) }
func TestTheGroupIsGone(t *testing.T) {
	t.Parallel()
	destroyed(t, false, false, "XGROUP", "DESTROY", stream, "processor-group")
}

// waits finds a connection that waits for entries.
var waits = regexp.MustCompile(`flags=\w*b\w* .*cmd=xreadgroup`)

// destroyed destroys the events' stream: the product recovers by itself, and reports confirmed
// events that are gone. First while unread entries wait, which can be counted; then under load.
func destroyed(t *testing.T, loses, books bool, command ...string) {
	rounds(t, func(w *world) {
		ins := w.run("one", "two")
		l := w.startLoad(loadOptions{})
		w.pass(time.Second)
		l.stop()
		before := w.quiet(afterFault)
		dead := w.deadSent() // their dead letters are in Redis too

		for _, in := range ins {
			in.Ask("pause", "analytics")
		}
		w.until(5*time.Second, "nobody waits for entries", func() bool {
			clients, err := w.do("CLIENT", "LIST").ToString()
			return err == nil && !waits.MatchString(clients)
		})
		unread := w.addWaiting(300)
		waited := w.int("XLEN", stream)
		if a, err := w.audit(); err != nil || a.InFlight != waited {
			w.Fatalf("the audit does not see what waits: %+v %v", a, err)
		}
		destroy := func() {
			if err := w.do(command...).Error(); err != nil {
				w.Fatal(err)
			}
			w.hit("destroyed")
		}
		destroy()
		for _, in := range ins {
			in.Ask("resume", "analytics")
		}
		a := w.quiet(afterClaim)
		if lost := a.Lost - before.Lost; loses && !books && lost != waited || !loses && lost != 0 {
			w.Errorf("the audit says %d lost, %d waited unread", lost, waited)
		}
		if loses && w.reports("went_back") == 0 {
			w.Error("the instances do not report that the stream went back")
		}

		l = w.startLoad(loadOptions{Plain: true, Dup: -1})
		l.phase.Store(1)
		w.pass(time.Second)
		w.postgres.Freeze() // so that entries wait
		w.until(5*time.Second, "entries wait", func() bool { return w.pending() > 50 })
		destroy()
		l.phase.Store(2)
		w.postgres.Thaw()
		w.pass(2 * time.Second)
		_, got := w.finish(afterClaim, allowance{forget: loses, lose: func(e *event) bool {
			return loses && (e.phase == 1 || slices.Contains(unread, e)) || books && slices.Contains(dead, e)
		}})
		missing := 0
		for _, e := range unread {
			if slices.Contains(got.missing, e) {
				missing++
			}
		}
		w.Logf("%d waited unread, %d of them are missing, %d in all", waited, missing, len(got.missing))
		if loses && missing != len(unread) {
			w.Errorf("%d events that were destroyed unread are missing, %d were", missing, len(unread))
		}
		w.struck("destroyed", 2, w.hits["destroyed"])
	})
}

// deadSent are the events sent so far that should be dead.
func (w *world) deadSent() (dead []*event) {
	for _, l := range w.loads {
		for _, e := range l.events {
			if e.kind.dead() {
				dead = append(dead, e)
			}
		}
	}
	return dead
}

// TestPostgresSessionsAreEnded ends the product's sessions again and again, then refuses
// writing for some seconds.
func TestPostgresSessionsAreEnded(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		w.run("one")
		w.startLoad(loadOptions{})
		db := w.sql()
		end := func() {
			var n int
			if err := db.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = 'test' AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&n); err != nil {
				w.Fatal(err)
			}
			w.hits["ended"] += n
		}
		w.pass(time.Second)
		for n := 0; n < 25 || n < 250 && w.hits["ended"] < 15; n++ {
			w.pass(w.between(50*time.Millisecond, 250*time.Millisecond))
			end()
		}
		w.pass(time.Second)
		w.exec(`ALTER DATABASE test SET default_transaction_read_only = on`)
		end()
		w.pass(2 * time.Second)
		waiting := w.int("XLEN", stream)
		if w.pass(time.Second); w.int("XLEN", stream) > waiting {
			w.hit("behind")
		}
		w.exec(`SET default_transaction_read_only = off`, `ALTER DATABASE test RESET default_transaction_read_only`)
		end()
		w.finish(afterFault, allowance{})
		w.struck("sessions ended", 15, w.hits["ended"])
		w.struck("nothing could be written: it fell behind, or events died of it", 1, w.hits["behind"]+w.replayed)
	})
}

// TestPostgresPasswordIsWrong changes the product's password for some seconds.
func TestPostgresPasswordIsWrong(t *testing.T) {
	t.Parallel()
	rounds(t, func(w *world) {
		db := w.sql()
		var hba string
		if err := db.QueryRow(context.Background(), `SHOW hba_file`).Scan(&hba); err != nil {
			w.Fatal(err)
		}
		trust, err := os.ReadFile(hba)
		if err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(hba, append([]byte("host all app 127.0.0.1/32 scram-sha-256\n"), trust...), 0o600); err != nil {
			w.Fatal(err)
		}
		w.exec(`CREATE ROLE app LOGIN PASSWORD 'first'`, `ALTER DATABASE test OWNER TO app`, `ALTER SCHEMA public OWNER TO app`, `SELECT pg_reload_conf()`)
		w.env["DATABASE_URL"] = strings.Replace(w.env["DATABASE_URL"], "postgres@", "app:first@", 1)
		w.run("one")
		w.startLoad(loadOptions{Door: 50})
		w.pass(time.Second)
		for range 2 {
			const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'`
			w.exec(`ALTER ROLE app PASSWORD 'second'`, end)
			w.pass(w.between(2*time.Second, 3*time.Second))
			var n int
			if err := db.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'`).Scan(&n); err != nil {
				w.Fatal(err)
			}
			if n == 0 && w.int("XLEN", stream) > 500 {
				w.hit("locked out")
			}
			w.exec(`ALTER ROLE app PASSWORD 'first'`)
			w.pass(time.Second)
		}
		w.finish(afterFault, allowance{})
		w.struck("locked out of PostgreSQL", 2, w.hits["locked out"])
		if w.replayed > 0 {
			w.Errorf("%d events died of a wrong password", w.replayed)
		}
	})
}

// TestClickHousePasswordIsWrong has a ClickHouse with another password for some seconds. It
// sets the environment of the server, so it runs alone.
func TestClickHousePasswordIsWrong(t *testing.T) {
	const variable = "CLICKHOUSE_PASSWORD"
	t.Setenv(variable, "first")
	rounds(t, func(w *world) {
		w.env[variable] = "first"
		w.run("one")
		w.startLoad(loadOptions{Door: 50})
		w.pass(time.Second)
		again := func(password string) {
			w.kill(w.clickhouse)
			w.Setenv(variable, password)
			w.clickhouse.Restart()
		}
		again("second")
		w.pass(3 * time.Second)
		if w.int("XLEN", stream) > 500 {
			w.hit("locked out")
		}
		again("first")
		w.finish(afterFault, allowance{})
		w.struck("locked out of ClickHouse", 1, w.hits["locked out"])
		if w.replayed > 0 {
			w.Errorf("%d events died of a wrong password", w.replayed)
		}
	})
}
