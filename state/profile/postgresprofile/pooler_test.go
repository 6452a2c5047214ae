package postgresprofile_test

import (
	"flag"
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
)

func TestConformanceBehindAPooler(t *testing.T) {
	testenv.Need(t)
	if before := flag.Lookup("rapid.checks").Value.String(); before == "100" { // no number was asked for: each commit takes its time
		t.Cleanup(func() { _ = flag.Set("rapid.checks", before) })
		_ = flag.Set("rapid.checks", "20")
	}
	pooled, _ := testenv.PgBouncer(t)
	url := pooled + "&synchronous_commit=off"
	db := connect(t, url)
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness { return harness(t, db, url, o) })
}
