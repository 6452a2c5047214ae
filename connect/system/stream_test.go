//go:build !embedded

package system

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/redissource"

	"github.com/redis/rueidis"
)

func TestAGroupThatNobodyReadsIsFound(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) {
		stream := testenv.Name("groups")
		s, err := redissource.New(client, redissource.Options{Stream: stream, Consumer: "c"})
		if err != nil {
			t.Fatal(err)
		}
		do := func(args ...string) {
			t.Helper()
			if err := client.Do(t.Context(), client.B().Arbitrary(args[0]).Keys(args[1]).Args(args[2:]...).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		do("XADD", stream, "*", "payload", "x")
		group := func(name, from string) {
			t.Helper()
			if err := client.Do(t.Context(), client.B().XgroupCreate().Key(stream).Group(name).Id(from).Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		group("through", "$")
		if fs := otherGroups(t.Context(), stream, s, time.Now); len(fs) != 0 {
			t.Errorf("a group that has finished all is found: %+v", fs)
		}
		group("forgotten", "0")
		fs := otherGroups(t.Context(), stream, s, time.Now)
		if len(fs) != 1 || fs[0].Verdict != preflight.Warn || !strings.Contains(fs[0].Detail, "group forgotten has no reader and holds 1 entries") || !strings.Contains(fs[0].Advice, "XGROUP DESTROY "+stream+" forgotten") {
			t.Errorf("%+v", fs)
		}
		if err := client.Do(t.Context(), client.B().Xreadgroup().Group("forgotten", "theirs").Streams().Key(stream).Id(">").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if fs := otherGroups(t.Context(), stream, s, time.Now); len(fs) != 0 {
			t.Errorf("a group that is read is found: %+v", fs)
		}
	})
}
