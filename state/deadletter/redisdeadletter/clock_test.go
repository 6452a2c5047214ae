package redisdeadletter_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
)

// ahead is a connection to a server whose clock is an hour ahead of this machine's.
type ahead struct{ rueidis.Client }

func (c ahead) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if name := cmd.Commands()[0]; !strings.HasSuffix(name, "_RO") { // no other script only reads
		return c.Client.Do(ctx, cmd)
	}
	now := time.Now().Add(time.Hour)
	return c.Client.Do(ctx, c.B().Eval().Script("return ARGV").Numkeys(0).
		Arg(strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond()/1000)).Build())
}

// Instances share leases, and their own clocks need not agree.
func TestLeasesGoByTheServersClock(t *testing.T) {
	l := onOne(t)
	var err error
	if l.Store, err = redisdeadletter.New(t.Context(), ahead{l.client}, redisdeadletter.Options{Stream: l.stream}); err != nil {
		t.Fatal(err)
	}
	l.put("a", "x", nil)
	l.replay(1)
	l.received(l.Open("p"))
	leases, err := l.client.Do(t.Context(), l.client.B().Zrange().Key("{"+l.stream+"}:later:p").Min("0").Max("-1").Withscores().Build()).AsZScores()
	if err != nil || len(leases) != 1 {
		t.Fatalf("leases %v, %v; want one", leases, err)
	}
	if left := time.Until(time.UnixMilli(int64(leases[0].Score))); left < 59*time.Minute {
		t.Errorf("the lease ends in %v by this machine's clock, want more than the hour that the server's is ahead", left)
	}
}
