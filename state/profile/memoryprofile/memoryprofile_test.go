package memoryprofile_test

import (
	"testing"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/memoryprofile"
	"github.com/tidemill/tidemill/state/profile/profiletest"
)

func TestConformance(t *testing.T) {
	profiletest.Run(t, func(t *testing.T, o profile.Options) profiletest.Harness {
		t.Helper()
		s, err := memoryprofile.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return profiletest.Harness{Store: s}
	})
}

func TestNewRefusesNonsense(t *testing.T) {
	if _, err := memoryprofile.New(profile.Options{Externals: -1}); err == nil {
		t.Error("it was taken")
	}
}

func Benchmark(b *testing.B) {
	profiletest.Bench(b, func(b *testing.B) profile.Store {
		s, err := memoryprofile.New(profile.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	})
}
