package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill/internal/sleep"
)

func TestASleepEndsInTimeOrWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := sleep.For(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("it ended after %v: %v", time.Since(began), err)
		}
		over := errors.New("over")
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(over) })
		began = time.Now()
		if err := sleep.For(ctx, time.Minute); !errors.Is(err, over) || time.Since(began) != time.Second {
			t.Errorf("it ended after %v: %v", time.Since(began), err)
		}
	})
}
