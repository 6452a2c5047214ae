package notice_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/notice/noticetest"
)

func TestInTheProcess(t *testing.T) {
	noticetest.Run(t, func(*testing.T) func() notice.Notices {
		s := &notice.Signal{}
		return func() notice.Notices { return s }
	})
}

func TestPolled(t *testing.T) {
	noticetest.Run(t, func(*testing.T) func() notice.Notices {
		return func() notice.Notices { return notice.Polled{Every: time.Millisecond, Why: "a test says so"} }
	})
}

// In the process nobody is woken without a notice, and who polls is at its time.
func TestNobodyIsWokenWithoutANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &notice.Signal{}
		l, _ := s.Listen(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is woken: %v", err)
		}
		p := notice.Polled{Why: "nothing tells"}
		start := time.Now()
		if l, _ := p.Listen(t.Context()); l.Wait(t.Context()) != nil || time.Since(start) != time.Second {
			t.Errorf("it looks after %v", time.Since(start))
		}
		if !strings.Contains(p.How(), "every 1s, for nothing tells") {
			t.Error(p.How())
		}
	})
}
