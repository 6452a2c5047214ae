package postgresprofile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
	"github.com/tidemill/tidemill/state/profile/postgresprofile"
)

func ask(external, email string) profile.Ask {
	return profile.Ask{Tenant: "club", Identities: profile.Identities{External: external, Email: email}, Create: true}
}

// again calls do until it succeeds.
func again(t *testing.T, do func() error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := do()
		if err == nil {
			return
		}
		if k := tidemill.KindOf(err); k != tidemill.Transient && k != tidemill.Timeout || time.Now().After(deadline) {
			t.Fatalf("%v is %v", err, k)
		}
	}
}

// until waits for what another session does.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// Answers are lost at every place of a call, one after the other: what is found in the end
// are the profiles that were created first, each once.
func TestLostAnswersCreateNothingTwice(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	host := url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")]
	link := testenv.NewLink(t, host)
	far := open(t, connect(t, strings.Replace(url, host, link.Addr, 1)), profile.Options{})
	near := connect(t, url)
	for n := range 6 {
		warm := make([]profile.Answer, 1)
		again(t, func() error { return far.Resolve(t.Context(), []profile.Ask{ask(fmt.Sprint("warm-", n), "")}, warm) })
		asks := []profile.Ask{ask(fmt.Sprint("m-", n), fmt.Sprintf("m%d@club.example", n)), ask("", fmt.Sprintf("n%d@club.example", n))}
		answers := make([]profile.Answer, len(asks))
		link.LoseAnswers(1 + 60*n)
		err := far.Resolve(t.Context(), asks, answers)
		link.Heal()
		if n == 0 && (err == nil || tidemill.KindOf(err) != tidemill.Transient) {
			t.Fatalf("Resolve: %v is %v, want transient", err, tidemill.KindOf(err))
		}
		again(t, func() error { return far.Resolve(t.Context(), asks, answers) })
		for i, a := range answers {
			if a.Err != nil {
				t.Errorf("%+v: %+v", asks[i], a)
			}
		}
	}
	if got := count(t, near, "SELECT count(*) FROM tidemill_profile"); got != 18 {
		t.Errorf("there are %d profiles, want 18", got)
	}
	whole(t, near)
}

// A commit whose answer is lost has happened: the same Resolve again finds its profile.
func TestACommitWhoseAnswerIsLostIsFound(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	host := url[strings.Index(url, "@")+1 : strings.LastIndex(url, "/")]
	link := testenv.NewLink(t, host)
	far := open(t, connect(t, strings.Replace(url, host, link.Addr, 1)), profile.Options{})
	near := connect(t, url+"&application_name=other")
	if err := near.Do(t.Context(), func(ctx context.Context, c *pgx.Conn) error { // a commit takes so long that something can happen in it
		_, err := c.Exec(ctx, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
			CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON tidemill_profile DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`, pgx.QueryExecModeSimpleProtocol)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const committing = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'commit%'"
	var wg sync.WaitGroup
	wg.Go(func() {
		for deadline := time.Now().Add(20 * time.Second); count(t, near, committing) == 0; {
			if time.Now().After(deadline) {
				t.Error("no commit was seen")
				return
			}
		}
		link.Refuse()
	})
	answers := make([]profile.Answer, 1)
	err := far.Resolve(t.Context(), []profile.Ask{ask("m-1", "a@club.example")}, answers)
	wg.Wait()
	if err == nil || tidemill.KindOf(err) != tidemill.Transient {
		t.Fatalf("Resolve: %v is %v, want transient", err, tidemill.KindOf(err))
	}
	until(t, func() bool { return count(t, near, "SELECT count(*) FROM tidemill_profile") == 1 })
	link.Heal()
	again(t, func() error { return far.Resolve(t.Context(), []profile.Ask{ask("m-1", "a@club.example")}, answers) })
	p, err := open(t, near, profile.Options{}).Find(t.Context(), "club", profile.Identity{Kind: profile.External, Value: "m-1"})
	if err != nil || answers[0] != (profile.Answer{Profile: p.ID}) {
		t.Errorf("got %+v, want the profile that was created, %+v (%v)", answers[0], p, err)
	}
}

// A transaction that waits for an identity that is never committed goes on with its own.
func TestARolledBackCreatorLeavesTheIdentityToWhoWaits(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	db := connect(t, url)
	s := open(t, db, profile.Options{})
	boom := errors.New("boom")
	for _, fails := range []error{nil, boom} {
		name := fmt.Sprint("m-", fails == nil)
		var wg sync.WaitGroup
		waited := make([]profile.Answer, 2)
		first := make([]profile.Answer, 1)
		err := db.Tx(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			if err := s.In(tx).Resolve(ctx, []profile.Ask{ask(name, "")}, first); err != nil {
				return err
			}
			wg.Go(func() {
				if err := s.Resolve(t.Context(), []profile.Ask{ask(name, name+"@club.example"), ask("other "+name, "")}, waited); err != nil {
					t.Errorf("Resolve: %v", err)
				}
			})
			for deadline := time.Now().Add(20 * time.Second); count(t, db, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0; {
				if time.Now().After(deadline) {
					return errors.New("nobody waits")
				}
			}
			return fails
		})
		wg.Wait()
		if !errors.Is(err, fails) {
			t.Fatal(err)
		}
		if fails == nil && waited[0] != (profile.Answer{Profile: first[0].Profile}) || fails != nil && (!waited[0].New || waited[0].Profile == first[0].Profile) || !waited[1].New {
			t.Errorf("the first one ended with %v: %+v after %+v", fails, waited, first)
		}
	}
	whole(t, db)
}

func TestDamagedAttributesConcernTheirProfileOnly(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	s := open(t, db, profile.Options{})
	got := make([]profile.Answer, 2)
	if err := s.Resolve(t.Context(), []profile.Ask{ask("m-1", ""), ask("m-2", "")}, got); err != nil {
		t.Fatal(err)
	}
	var cs []profile.Change
	for _, a := range got {
		cs = append(cs, profile.Change{Tenant: "club", Profile: a.Profile, Attributes: []profile.Attribute{{Op: profile.Add, Key: "n", Value: []byte("1")}}})
	}
	if err := s.Update(t.Context(), cs); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE tidemill_profile SET registers = '\\x0101' WHERE id = $1", [16]byte(got[0].Profile))
	failed, ok := errors.AsType[*tidemill.Partial](s.Update(t.Context(), cs))
	if !ok || len(failed.Failed) != 1 || failed.Failed[0].Index != 0 || !errors.Is(failed.Failed[0].Err, rules.ErrDamaged) {
		t.Errorf("Update: %v", failed)
	}
	if _, err := s.Get(t.Context(), "club", got[0].Profile); !errors.Is(err, rules.ErrDamaged) || tidemill.KindOf(err) != tidemill.Internal {
		t.Errorf("Get: %v is %v", err, tidemill.KindOf(err))
	}
	if p, err := s.Get(t.Context(), "club", got[1].Profile); err != nil || string(p.Object()) != `{"n":2}` {
		t.Errorf("Get of the other: %+v, %v", p, err)
	}
	if there, err := s.Delete(t.Context(), "club", got[0].Profile); err != nil || !there {
		t.Errorf("Delete: %v, %v", there, err)
	}
}

func TestReadersBySQLSeeTheValuesAsTheyCame(t *testing.T) {
	testenv.Need(t)
	db := connect(t, testenv.Postgres(t))
	s := open(t, db, profile.Options{})
	got := make([]profile.Answer, 1)
	if err := s.Resolve(t.Context(), []profile.Ask{ask("m-1", "")}, got); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), []profile.Change{{Tenant: "club", Profile: got[0].Profile, Attributes: []profile.Attribute{
		{Op: profile.Set, Key: "big", Value: []byte("12345678901234567890")}, {Op: profile.Set, Key: "odd", Value: []byte(`"\u0000\ud800 ` + "\u2028" + `"`)}}}}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, `SELECT count(*) FROM tidemill_profile WHERE attributes->>'big' = '12345678901234567890' AND attributes->>'odd' = E'\uFFFD\uFFFD \u2028'`); n != 1 {
		t.Error("the attributes are not as they came")
	}
	if p, err := s.Get(t.Context(), "club", got[0].Profile); err != nil || string(p.Attributes["odd"]) != `"\u0000\ud800 `+"\u2028"+`"` {
		t.Errorf("Get: %+v, %v", p, err)
	}
}

func TestSeveralProcessesMakeTheTables(t *testing.T) {
	testenv.Need(t)
	url := testenv.Postgres(t)
	var wg sync.WaitGroup
	for range 4 {
		db := connect(t, url)
		wg.Go(func() {
			if _, err := postgresprofile.New(t.Context(), db, profile.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := postgresprofile.New(t.Context(), connect(t, url), profile.Options{Externals: -1}); err == nil {
		t.Error("nonsense was taken")
	}
}
