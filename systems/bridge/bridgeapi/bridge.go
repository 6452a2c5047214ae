// Package bridgeapi is what the API does of the bridge.
package bridgeapi

import (
	"context"
	"net/http"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// API does what the API does of the bridge.
type API struct {
	Status  func(context.Context) (Bridge, error)
	Entries http.Handler // takes entries into the embedded stream; nil: the stream is in Redis

	Consumer func(context.Context, string) (Consumer, error) // that has entries of the stream in Redis; nil: it is embedded
	TakeOver func(context.Context, string) (int, error)      // of a consumer, by this instance; nil: it is embedded
}

// noConsumers is the answer of the embedded stream.
func noConsumers() error {
	return operation.Refuse(http.StatusNotFound, "the bridge here has no consumers: only a stream in Redis is read by several instances, and has entries of one that is gone")
}

func (a *API) consumer(ctx context.Context, q *OneConsumer) (c Consumer, err error) {
	if a.Consumer == nil {
		return c, noConsumers()
	}
	c, err = a.Consumer(ctx, q.Consumer)
	return c, answer.Answerable(err)
}

func (a *API) takeOver(ctx context.Context, q *OneConsumer) (t TakenOver, err error) {
	if a.TakeOver == nil {
		return t, noConsumers()
	}
	t.Taken, err = a.TakeOver(ctx, q.Consumer)
	return t, answer.Answerable(err)
}

// Operations are those of the API that are about it.
func (a *API) Operations() []operation.Handler {
	return []operation.Handler{
		GetBridge.By(func(ctx context.Context, _ *operation.None) (Bridge, error) { return a.Status(ctx) }),
		GetConsumer.By(a.consumer),
		TakeOver.By(a.takeOver),
		{Description: SendEntries.Description, Serve: func(w http.ResponseWriter, r *http.Request) error {
			if a.Entries == nil {
				return operation.Refuse(http.StatusNotFound, "the embedded bridge does not run in this instance: write into the stream in Redis with XADD")
			}
			a.Entries.ServeHTTP(w, r)
			return nil
		}},
	}
}
