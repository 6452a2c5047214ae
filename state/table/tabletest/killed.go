package tabletest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/table"
)

// victim says to a process of this test's binary where it stops, to be killed there.
const victim = "TIDEMILL_TEST_TABLE_VICTIM"

// moves is how many transactions a process has done when it is to stop, and statements how many
// there are in each.
const (
	moves      = 2
	statements = 9
)

// Killed holds what a process leaves that is killed before or after any statement of a transaction
// of two tables: nothing half. place is where the tables are, in one word; open opens them there,
// in this process and in those that are killed. It is all that its test does.
func Killed[Raw any](t *testing.T, place func(t *testing.T) string, open func(t testing.TB, place string) Harness[Raw]) {
	if said := strings.Fields(os.Getenv(victim)); len(said) == 4 {
		at, err := strconv.Atoi(said[0])
		if err != nil {
			t.Fatal(err)
		}
		victimOf(t, open(t, said[3]), said[1], said[2], at)
		return
	}
	at := place(t)
	here, there := newName(), newName()
	made := 0
	for round := range 2 * (statements + 1) {
		stop := round % (statements + 1)
		t.Run(fmt.Sprintf("%d at statement %d", round, stop), func(t *testing.T) {
			kill(t, strings.Join([]string{strconv.Itoa(stop), here, there, at}, " "))
			made += moves
			if stop == statements { // after the commit
				made++
			}
			movedWhole(t, open(t, at), here, there, made)
			made++
		})
	}
}

// kill starts a process of this test, and kills it where it stops.
func kill(t *testing.T, said string) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.run=^"+name+"$")
	cmd.Env = append(os.Environ(), victim+"="+said)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	for lines := bufio.NewScanner(out); !stopped && lines.Scan(); {
		if stopped = lines.Text() == "stopped"; !stopped {
			t.Log(lines.Text())
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	if !stopped {
		t.Fatal("the process ended by itself")
	}
}

// victimOf moves records from one table to the other, and stops before a statement for ever.
func victimOf[Raw any](t testing.TB, h Harness[Raw], here, there string, at int) {
	w, other := pairOf(t, h, here, there)
	for i := range moves + 1 {
		n := 0
		statement := func() {
			if n++; i == moves && n-1 == at {
				fmt.Println("stopped")
				select {}
			}
		}
		if err := move(t.Context(), w, other, statement); err != nil {
			t.Fatal(err)
		}
		statement()
	}
}

func pairOf[Raw any](t testing.TB, h Harness[Raw], here, there string) (w, other *world[Raw]) {
	w, other = &world[Raw]{Harness: h, name: here}, &world[Raw]{Harness: h, name: there}
	w.Store, other.Store = w.another(t), other.another(t)
	return w, other
}

// move makes a record in one table, takes the one before out of it into the other, and counts in
// both, by a statement for each. It calls statement before each, and before the commit.
func move[Raw any](ctx context.Context, w, other *world[Raw], statement func()) error {
	return w.Update(ctx, func(tx table.Tx[Record], raw Raw) error {
		to := w.In(other.Store, raw)
		var errs []error
		do := func(err func() error) { statement(); errs = append(errs, err()) }
		n := 0
		do(func() error {
			found, err := tx.Get([]string{"n"})
			if found["n"] != nil {
				n = found["n"].Tries
			}
			return err
		})
		do(func() error { return add(to, "n", 1) })
		do(func() error { return tx.Put([]*Record{{Key: "n", Tries: n + 1}}) })
		do(func() error { return tx.Put([]*Record{{Key: fmt.Sprint("r", n+1), State: 1, At: day(n)}}) })
		do(func() error { return to.Put([]*Record{{Key: fmt.Sprint("r", n), State: 2, At: day(n)}}) })
		do(func() error { return tx.Delete([]string{fmt.Sprint("r", n)}) })
		do(func() error { _, err := to.Next(1); return err })
		do(func() error { return to.Put([]*Record{{Key: fmt.Sprint("r", n), Flag: true}}, "flag") })
		statement()
		return errors.Join(errs...)
	})
}

// movedWhole checks that so many moves were made as a whole, and makes one more.
func movedWhole[Raw any](t *testing.T, h Harness[Raw], here, there string, made int) {
	t.Helper()
	w, other := pairOf(t, h, here, there)
	same(t, w.get(t, "n"), &Record{Key: "n", Tries: made})
	same(t, other.get(t, "n"), &Record{Key: "n", Tries: made})
	if got, want := keys(w.page(t, query{By: "at", Most: 9})), fmt.Sprint("n r", made); got != want {
		t.Errorf("here are %s, want %s", got, want)
	}
	w.counted(t, map[string]int{"/1": 1})
	other.counted(t, map[string]int{"/2": made})
	moved := other.page(t, query{By: "at", Most: made + 9})
	for _, r := range moved[1:] {
		if !r.Flag {
			t.Errorf("there is %+v, without its flag", r)
		}
	}
	if len(moved) != made+1 {
		t.Errorf("there are %d records, want %d", len(moved), made+1)
	}
	if err := move(t.Context(), w, other, func() {}); err != nil {
		t.Errorf("after it: %v", err)
	}
}
