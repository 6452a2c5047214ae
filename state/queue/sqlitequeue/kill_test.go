//go:build unix

package sqlitequeue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

// childFile names the file that this binary, run once more by a test, works on.
const childFile = "TIDEMILL_QUEUE_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := child(path, os.Getenv("TIDEMILL_QUEUE_ROUND"), os.Stdout); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child adds and settles until it is killed, and says each thing once it is durable.
func child(path, round string, say io.Writer) error {
	ctx := context.Background()
	limitFiles()
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{})
	if err != nil {
		return err
	}
	s, err := New(ctx, db, Options{tableNames: 500})
	if err != nil {
		return err
	}
	failed := make(chan error, 4)
	for adder := range 2 {
		go func() {
			for i := 0; ; i++ {
				jobs := make([]*tidemill.Message, 1+i%40)
				for k := range jobs {
					id := fmt.Sprintf("%s/%d/%d/%d", round, adder, i, k)
					jobs[k] = &tidemill.Message{ID: id, To: "q", Payload: []byte("payload of " + id)}
				}
				err := s.Add(ctx, jobs, nil)
				if err != nil {
					failed <- fmt.Errorf("add: %w", err)
					return
				}
				var b strings.Builder
				for _, j := range jobs {
					fmt.Fprintln(&b, "added", j.ID)
				}
				_, _ = io.WriteString(say, b.String())
			}
		}()
	}
	go func() { failed <- settleSome(ctx, s, say) }()
	go func() {
		for ; ; time.Sleep(10 * time.Millisecond) {
			if err := s.Sweep(ctx); err != nil {
				failed <- fmt.Errorf("sweep: %w", err)
				return
			}
		}
	}()
	return <-failed
}

func settleSome(ctx context.Context, s *Store, say io.Writer) error {
	src := s.Open("q", queue.Options{Lease: time.Second})
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for {
		into := make([]*tidemill.Message, 1+rng.IntN(100))
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		n, err := src.Receive(ctx, into)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		var ends []tidemill.Settlement
		for _, m := range into[:n] {
			if string(m.Payload) != "payload of "+m.ID {
				return fmt.Errorf("job %q has payload %q", m.ID, m.Payload)
			}
			e := tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
			switch rng.IntN(5) {
			case 0:
				e.End, e.After, e.CountTry = tidemill.Again, time.Duration(rng.IntN(50))*time.Millisecond, true
			case 1:
				continue // forgotten
			}
			ends = append(ends, e)
		}
		if err := src.Settle(ctx, ends); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		var b strings.Builder
		for _, e := range ends {
			if e.End == tidemill.Done && e.Outcome == tidemill.Applied {
				fmt.Fprintln(&b, "settled", e.ID)
			}
		}
		_, _ = io.WriteString(say, b.String())
	}
}

// journal is what children have said.
type journal struct {
	added, settled map[string]bool
	err            string
}

// run runs a child on the file and kills it after so many words; 0: lets it end by itself.
func (j *journal) run(t *testing.T, path string, round int, after int, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), childFile+"="+path, "TIDEMILL_QUEUE_ROUND="+strconv.Itoa(round)), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for said := 1; lines.Scan(); said++ {
		if said == after {
			_ = cmd.Process.Kill() // what it has said by then is still read
		}
		switch what, id, _ := strings.Cut(lines.Text(), " "); what {
		case "added":
			j.added[id] = true
		case "settled":
			if j.settled[id] {
				t.Errorf("job %s was settled twice", id)
			}
			j.settled[id] = true
		case "error":
			j.err = id
		}
	}
	_ = cmd.Wait()
	if after > 0 && j.err != "" {
		t.Fatalf("the child says: %s", j.err)
	}
}

// check opens the file, looks at the books and drains the queue.
func (j *journal) check(t *testing.T, path string) {
	t.Helper()
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := s.Open("q", queue.Options{})
	books, err := src.(tidemill.Bookkeeper).Books(t.Context())
	if err != nil || books.Off() != 0 {
		t.Fatalf("books are off by %d: %+v, %v", books.Off(), books, err)
	}
	if books.Accepted < uint64(len(j.added)) || books.Settled.Delivered < uint64(len(j.settled)) {
		t.Fatalf("books are %+v; %d were added and %d settled", books, len(j.added), len(j.settled))
	}
	var again []*tidemill.Message
	for id := range j.added {
		again = append(again, &tidemill.Message{ID: id, To: "q"})
	}
	added := make([]queue.Added, len(again))
	if err := s.Add(t.Context(), again, added); err != nil {
		t.Fatal(err)
	}
	for i, a := range added {
		if a != queue.Known {
			t.Fatalf("job %s was added and is not known", again[i].ID)
		}
	}
	pending := map[string]bool{}
	for uint64(len(pending)) < books.Pending {
		into := []*tidemill.Message{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}
		n, err := src.Receive(t.Context(), into)
		if err != nil {
			t.Fatal(err)
		}
		ends := make([]tidemill.Settlement, n)
		for i, m := range into[:n] {
			if j.settled[m.ID] || pending[m.ID] || string(m.Payload) != "payload of "+m.ID {
				t.Fatalf("job %s came with payload %q; settled before: %v, came before: %v", m.ID, m.Payload, j.settled[m.ID], pending[m.ID])
			}
			pending[m.ID] = true
			ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
		}
		if err := src.Settle(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
	}
	unsaid := int(books.Settled.Delivered) - len(j.settled) // durable, but killed before it could say so
	for id := range j.added {
		if !j.settled[id] && !pending[id] {
			unsaid--
		}
	}
	if unsaid < 0 {
		t.Fatalf("%d jobs that were added are gone", -unsaid)
	}
	if books, err = src.(tidemill.Bookkeeper).Books(t.Context()); err != nil || books.Pending != 0 || books.Off() != 0 {
		t.Fatalf("after all was settled the books are %+v, %v", books, err)
	}
}

func TestNothingIsLostWhenTheProcessIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	j := &journal{added: map[string]bool{}, settled: map[string]bool{}}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for round := range 8 {
		j.run(t, path, round, 1+rng.IntN(3000))
	}
	if len(j.added) == 0 || len(j.settled) == 0 {
		t.Errorf("%d jobs were added and %d settled: the kills came too early to show anything", len(j.added), len(j.settled))
	}
	j.check(t, path)
}

func TestNothingIsLostWhenTheDiskIsFull(t *testing.T) {
	for name, limit := range map[string]int{"early": 1 << 20, "later": 12 << 20} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "queue.db")
			j := &journal{added: map[string]bool{}, settled: map[string]bool{}}
			j.run(t, path, 0, 0, fileLimit+"="+strconv.Itoa(limit))
			if j.err == "" || len(j.added) == 0 {
				t.Fatalf("the child ended with %q after %d jobs; want an error of a full disk", j.err, len(j.added))
			}
			j.check(t, path)
		})
	}
}

func TestAFullFileTakesNothingAndGivesEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	db, err := sqlitedb.Open(t.Context(), path, sqlitedb.Options{MaxBytes: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := New(t.Context(), db, Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := s.Open("q", queue.Options{})
	added := 0
	fill := func() {
		t.Helper()
		for ; ; added++ {
			err := s.Add(t.Context(), []*tidemill.Message{{ID: strconv.Itoa(added), To: "q", Payload: make([]byte, 3000)}}, nil)
			if errors.Is(err, sqlitedb.ErrFull) {
				return
			}
			if err != nil {
				t.Fatalf("add to a full file says %v, want %v", err, sqlitedb.ErrFull)
			}
		}
	}
	for range 3 {
		fill()
		books, err := src.(tidemill.Bookkeeper).Books(t.Context())
		if err != nil || books.Accepted != uint64(added) || books.Off() != 0 || books.Pending == 0 {
			t.Fatalf("books are %+v, %v; want %d accepted", books, err, added)
		}
		if held := s.find("q").held.Load(); held != int64(books.Pending) {
			t.Fatalf("room is taken for %d jobs, %d are held", held, books.Pending)
		}
		for left := books.Pending; left > 0; left-- {
			m := new(tidemill.Message)
			if _, err := src.Receive(t.Context(), []*tidemill.Message{m}); err != nil {
				t.Fatalf("receive from a full file: %v", err)
			}
			if err := src.Settle(t.Context(), []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}}); err != nil {
				t.Fatalf("settle in a full file: %v", err)
			}
		}
	}
}
