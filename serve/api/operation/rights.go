package operation

import (
	"context"
	"sync"
	"time"
)

// rightsEvery is how often it is asked whether the caller of an answer that goes on still may have it.
const rightsEvery = 4 * time.Second

type rightsKey struct{}

// WithRights is a context whose answers that go on, streams and live listings, end within about four
// seconds once still says that their caller has no longer the rights that they came in with. Without
// it they end with their context alone. One goroutine for each answer calls still.
func WithRights(ctx context.Context, still func() bool) context.Context {
	return context.WithValue(ctx, rightsKey{}, still)
}

// whileMay is a context that ends with the rights of its caller. Nobody asks for them any more when
// end has returned.
func whileMay(ctx context.Context) (_ context.Context, end func()) {
	still, ok := ctx.Value(rightsKey{}).(func() bool)
	ctx, cancel := context.WithCancel(ctx)
	if !ok {
		return ctx, cancel
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		defer cancel()
		every := time.NewTicker(rightsEvery)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				if !still() {
					return
				}
			}
		}
	})
	return ctx, func() { cancel(); asking.Wait() }
}
