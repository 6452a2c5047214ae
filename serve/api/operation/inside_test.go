package operation_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

type line struct {
	N int `json:"n"`
}

var (
	whoAmI  = operation.View[operation.None, caller.Caller]("whoAmI", "me", "Say who asks.").For(caller.Viewer)
	numbers = operation.List[operation.None, line]("numbers", "numbers", "List numbers.").For(caller.Viewer)
)

// answers answers as the API does.
func answers(h operation.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.Serve(w, r); err != nil {
			p, _ := errors.AsType[*operation.Problem](err)
			operation.Write(w, p.Status, operation.ProblemType, p)
		}
	})
}

func TestARequestInsideIsOfItsContextsCaller(t *testing.T) {
	ada := caller.Key("ada", "password", netip.Addr{})
	c := operation.Inside(answers(whoAmI.By(func(ctx context.Context, _ *operation.None) (caller.Caller, error) { return caller.From(ctx), nil })))
	for _, want := range []caller.Caller{ada, {}} {
		ctx := context.Background()
		if want.Name != "" {
			ctx = caller.With(ctx, want)
		}
		got, err := whoAmI.Call(ctx, c, &operation.None{})
		if err != nil && want.Name != "" || got.Name != want.Name {
			t.Errorf("the caller is %+v: %v; want %+v", got, err, want)
		}
	}
}

func TestAProblemInsideIsThatOfTheAPI(t *testing.T) {
	c := operation.Inside(answers(whoAmI.By(func(context.Context, *operation.None) (caller.Caller, error) {
		return caller.Caller{}, operation.Refuse(http.StatusTeapot, "it is a teapot")
	})))
	_, err := whoAmI.Call(context.Background(), c, &operation.None{})
	if p, ok := errors.AsType[*operation.Problem](err); !ok || p.Status != http.StatusTeapot || p.Detail != "it is a teapot" {
		t.Errorf("the error is %v", err)
	}
}

func TestAListingInsideIsReadWhileItIsWrittenAndEndsWithItsReader(t *testing.T) {
	ended := make(chan int, 1)
	c := operation.Inside(answers(numbers.By(func(context.Context, *operation.None) (iter.Seq2[line, error], error) {
		return func(yield func(line, error) bool) {
			n := 0
			defer func() { ended <- n }() // what cannot be written panics
			for yield(line{n}, nil) {
				n++
			}
		}, nil
	})))
	seen := 0
	for got, err := range numbers.Each(context.Background(), c, &operation.None{}) {
		if err != nil || got.N != seen {
			t.Fatalf("line %d is %+v: %v", seen, got, err)
		}
		if seen++; seen == 3 {
			break
		}
	}
	if n := <-ended; n < 2 {
		t.Errorf("it ended after %d lines", n)
	}
}

func TestAListingInsideThatIsCutOffSaysSo(t *testing.T) {
	c := operation.Inside(answers(numbers.By(func(context.Context, *operation.None) (iter.Seq2[line, error], error) {
		return func(yield func(line, error) bool) {
			_ = yield(line{}, nil) && yield(line{}, io.ErrClosedPipe)
		}, nil
	})))
	var last error
	n := 0
	for _, err := range numbers.Each(context.Background(), c, &operation.None{}) {
		if last = err; err == nil {
			n++
		}
	}
	if p, ok := errors.AsType[*operation.Problem](last); n != 1 || !ok || p.Status != http.StatusInternalServerError {
		t.Errorf("%d lines, and then %v", n, last)
	}
}
