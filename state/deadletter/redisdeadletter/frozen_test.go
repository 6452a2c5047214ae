package redisdeadletter_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
)

// Where its server does not answer any more, a source that waits says so: it may be another one by now.
func TestASourceDoesNotWaitForAServerForEver(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, server.Addr)
	l := &letters{T: t, client: redistest.Connect(t, "redis://"+link.Addr), stream: "events:dlq"}
	l.open()
	s := l.Open("p")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		time.Sleep(time.Second) // it waits
		link.BlackHole()
	}()
	if _, err := s.Receive(ctx, []*tidemill.Message{{}}); err == nil || ctx.Err() != nil {
		t.Errorf("after a minute: %v, want an error of its own", err)
	}
	link.Heal()
}
