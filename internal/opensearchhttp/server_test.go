package opensearchhttp

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestServersAreKnownAndWell(t *testing.T) {
	for _, s := range []struct {
		product string
		url     func(testing.TB) string
	}{{OpenSearch, testenv.OpenSearch}, {Elasticsearch, testenv.Elasticsearch}} {
		t.Run(s.product, func(t *testing.T) {
			c := open(t, s.url(t), Options{})
			if c.Product() != s.product {
				t.Errorf("it is taken for %s", c.Product())
			}
			found := Inspect(t.Context(), c)
			for _, f := range found {
				t.Log(f)
				if f.Verdict != preflight.OK {
					t.Errorf("%+v", f)
				}
			}
			if len(found) != 4 {
				t.Errorf("%d findings, want version, cluster, new indices, room", len(found))
			}
			_, err := c.Do(t.Context(), http.MethodGet, "/"+testenv.Name("nothing"), nil)
			if Status(err) != http.StatusNotFound || tidemill.KindOf(err) != tidemill.Transient {
				t.Errorf("of an index that is not there: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := c.Do(ctx, http.MethodGet, "/", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: %v", err)
			}
		})
	}
}
