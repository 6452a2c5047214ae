// Command overview measures what operators' figures cost among a million jobs in 100 queues of 1,000
// owners and 100,000 dead letters, on SQLite.
//
//	go run ./bench/overview
//	go run ./bench/overview -n 100000 -dead 10000
//
// A row is a request to the API in this process, each so long after the one before, by the clock of
// the API, that all figures are read anew; that of an overview each second reads what is read then. Its
// columns are the median, the 99th percentile and the longest of 50, in ms, and the CPU time of
// one. The first request of each row is not measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

const (
	queues = 100
	owners = 1000
	rounds = 50
	part   = 1000 // jobs added at once

	settled = 100 * time.Millisecond // for readings that go on after an answer
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	jobs := flag.Int("n", 1_000_000, "jobs")
	dead := flag.Int("dead", 100_000, "dead letters")
	dir := flag.String("dir", "", "folder for the file; empty: a temporary one")
	flag.Parse()
	folder, err := os.MkdirTemp(*dir, "bench-overview")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	db, err := sqlitedb.Open(ctx, filepath.Join(folder, "overview.db"), sqlitedb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	if err != nil {
		return err
	}
	table, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return err
	}
	letters, err := tabledeadletter.New(ctx, table, tabledeadletter.Options{})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := errors.Join(fill(ctx, store, *jobs), bury(ctx, letters, *dead)); err != nil {
		return err
	}
	log.Printf("filled in %v", time.Since(began).Round(time.Second))
	return measure(ctx, store, letters)
}

func nameOf(i int) string { return fmt.Sprintf("queue-%02d", i%queues) }

func fill(ctx context.Context, store *sqlitequeue.Store, n int) error {
	for done := 0; done < n; done += part {
		all := make([]*tidemill.Message, part)
		for i := range all {
			k := done + i
			all[i] = &tidemill.Message{ID: fmt.Sprint(k), To: nameOf(done / part), Tenant: fmt.Sprint("owner-", k%owners), Payload: []byte(`{"total":12}`)}
		}
		if err := store.Add(ctx, all, nil); err != nil {
			return err
		}
	}
	return nil
}

func bury(ctx context.Context, letters deadletter.Store, n int) error {
	for done := 0; done < n; done += part {
		all := make([]tidemill.DeadLetter, part)
		for i := range all {
			k := done + i
			all[i] = tidemill.DeadLetter{Pipeline: nameOf(k), Kind: tidemill.Partner, Cause: fmt.Sprintf("cause %c: answered %d", 'a'+k%20, 500+k%7), At: time.Now(),
				Message: &tidemill.Message{ID: fmt.Sprint(k), Tenant: fmt.Sprint("owner-", k%owners), Payload: []byte(`{"total":12}`)}}
		}
		if err := letters.Put(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// eachSecond is an overview that somebody looks at.
const eachSecond = "overview, each second"

// measure asks the API. Its clock goes on by a minute for each request, so that all is read anew.
func measure(ctx context.Context, store *sqlitequeue.Store, letters deadletter.Store) error {
	books := map[string]tidemill.Bookkeeper{}
	for i := range queues {
		books[nameOf(i)] = store.Open(nameOf(i), queue.Options{}).(tidemill.Bookkeeper)
		books[nameOf(i)+".replay"] = letters.Open(nameOf(i)).(tidemill.Bookkeeper)
	}
	ahead := time.Duration(0)
	api := admin.New(admin.Parts{Common: &answer.Common{Queues: store}, Letters: letters, Systems: []admin.System{{Name: "bench", Books: books}}, Now: func() time.Time { return time.Now().Add(ahead) }})
	defer api.Close()
	fmt.Printf("%-36s %8s %8s %8s %8s\n", "ms", "median", "99%", "longest", "CPU")
	for _, name := range []string{"overview", eachSecond, "queues", "queues/queue-00", "owners?max=50", "owners/owner-7", "dead/groups", "history", "dead?limit=50&count=bounded"} {
		path, step := name, time.Minute
		if name == eachSecond {
			path, step = "overview", time.Second
		}
		if err := row(ctx, name, func() { ahead += step }, func() (int, string) {
			w := httptest.NewRecorder()
			who := caller.With(ctx, caller.Caller{Name: "bench", Rights: caller.All(caller.Viewer)})
			api.Inside().ServeHTTP(w, httptest.NewRequestWithContext(who, http.MethodGet, admin.Prefix+path, nil))
			return w.Code, w.Body.String()
		}); err != nil {
			return err
		}
	}
	loop := api.Sample()
	return row(ctx, "a sample, each 10 s", func() { ahead += loop.Every }, func() (int, string) {
		if err := loop.Do(ctx); err != nil {
			return http.StatusInternalServerError, err.Error()
		}
		return http.StatusOK, ""
	})
}

func row(ctx context.Context, name string, before func(), do func() (int, string)) error {
	var all []time.Duration
	for code := 0; code != http.StatusOK; { // a first reading may take longer than an answer
		if err := ctx.Err(); err != nil {
			return err
		}
		before()
		code, _ = do()
		time.Sleep(settled)
	}
	cpu := process.CPU(os.Getpid())
	for range rounds {
		before()
		began := time.Now()
		code, text := do()
		if all = append(all, time.Since(began)); code != http.StatusOK {
			return fmt.Errorf("%s: answered %d: %s", name, code, text)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(settled)
	}
	cpu = (process.CPU(os.Getpid()) - cpu) / rounds
	q := figures.QuantilesOf(all)
	fmt.Printf("%-36s %8.1f %8.1f %8.1f %8.1f\n", name, q.P50, q.P99, q.Max, float64(cpu.Microseconds())/1000)
	return nil
}
