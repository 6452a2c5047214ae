package postgresnotice_test

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/notice/noticetest"
	"github.com/tidemill/tidemill/state/notice/postgresnotice"
)

func opened(t *testing.T, url string) notice.Notices {
	t.Helper()
	db, err := postgresdb.Open(t.Context(), tidemill.NewSecret(url), postgresdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	n, err := postgresnotice.New(db, "test")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestContract(t *testing.T) {
	testenv.Need(t)
	noticetest.Run(t, func(t *testing.T) func() notice.Notices {
		url := testenv.Postgres(t)
		return func() notice.Notices { return opened(t, url) }
	})
}

// Behind a pooler who listens polls, and says so; what it tells is heard by who is connected directly.
func TestBehindAPooler(t *testing.T) {
	testenv.Need(t)
	pooled, direct := testenv.PgBouncer(t)
	if how := opened(t, pooled).How(); !strings.Contains(how, "every 1s, for PostgreSQL is behind a pooler") {
		t.Error(how)
	}
	if how := opened(t, direct).How(); how != "by LISTEN of PostgreSQL" {
		t.Error(how)
	}
	noticetest.Run(t, func(t *testing.T) func() notice.Notices {
		return func() notice.Notices { return opened(t, pooled) }
	})
	t.Run("mixed", func(t *testing.T) {
		noticetest.Run(t, func(t *testing.T) func() notice.Notices {
			n := 0
			return func() notice.Notices { // who listens first is connected directly
				n++
				return opened(t, map[bool]string{true: direct, false: pooled}[n%2 == 1])
			}
		})
	})
}
