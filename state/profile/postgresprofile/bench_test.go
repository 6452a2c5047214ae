package postgresprofile_test

import (
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
)

func Benchmark(b *testing.B) {
	profiletest.Bench(b, func(b *testing.B) profile.Store { return open(b, connect(b, testenv.Postgres(b)), profile.Options{}) })
}
