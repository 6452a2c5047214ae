package redisledger_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/ledgertest"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

var background = context.Background()

func TestConformance(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		ledgertest.Run(t, func(t *testing.T) ledgertest.Harness { return harness(t, client) })
	})
}

// harness is a ledger of its own.
func harness(t *testing.T, client rueidis.Client) ledgertest.Harness {
	t.Helper()
	c, name := ledgertest.NewClock(), testenv.Name("l")
	named := func(t *testing.T, name string) ledger.Store {
		t.Helper()
		return open(t, client, redisledger.Options{Name: name, Now: c.Now})
	}
	drop := func() {
		remove(t, client, name)
		remove(t, client, name+"_other")
	}
	t.Cleanup(drop)
	return ledgertest.Harness{
		Ledger: named(t, name), Clock: c, Close: drop,
		Reopen: func(t *testing.T) ledger.Store { return named(t, name) },
		Other:  func(t *testing.T) ledger.Store { return named(t, name+"_other") },
	}
}

func open(t testing.TB, client rueidis.Client, o redisledger.Options) *redisledger.Ledger {
	t.Helper()
	l, err := redisledger.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// keys of a ledger, as the package comment names them.
func keys(name string) []string {
	tag := "{ledger:" + name + "}:"
	return []string{tag + "entries", tag + "payloads", tag + "groups", tag + "token"}
}

func remove(t testing.TB, client rueidis.Client, name string) {
	t.Helper()
	ctx := t.Context()
	if ctx.Err() != nil { // in Cleanup
		ctx = background
	}
	if err := client.Do(ctx, client.B().Del().Key(keys(name)...).Build()).Error(); err != nil {
		t.Errorf("remove ledger %s: %v", name, err)
	}
}

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := redisledger.New(nil, redisledger.Options{}); err == nil {
		t.Error("a ledger without a connection was opened")
	}
	testenv.Need(t)
	client := redistest.Connect(t, testenv.Redis(t))
	for _, o := range []redisledger.Options{{Name: "A"}, {Name: "a}"}, {Prefix: "{a}"}, {Name: strings.Repeat("a", 33)}} {
		if _, err := redisledger.New(client, o); err == nil {
			t.Errorf("New(%+v): no error", o)
		}
	}
}

func TestSameAsInMemory(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		ledgertest.Same(t, func(t *testing.T) ledgertest.Harness { return harness(t, client) }, inMemory)
	})
}

func inMemory(now func() time.Time) ledger.Store {
	return tableledger.Memory(tableledger.Options{Now: now})
}
