package opensearchsearch

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
)

// cleanUp removes a test's indices from a shared server, by name, as servers may forbid
// patterns.
func cleanUp(t testing.TB, conn *opensearchhttp.Conn, s *Store) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		answer, err := conn.Do(ctx, http.MethodGet, "/"+s.all()+"/_settings/index.creation_date?ignore_unavailable=true", nil)
		found := map[string]any{}
		if err != nil || json.Unmarshal(answer, &found) != nil {
			t.Logf("look for indices: %v", err)
		}
		var names []string
		for name := range found {
			names = append(names, name)
		}
		slices.Sort(names)
		if len(names) > 0 {
			if _, err := conn.Do(ctx, http.MethodDelete, "/"+strings.Join(names, ","), nil); err != nil {
				t.Logf("remove indices: %v", err)
			}
		}
		for _, name := range s.names {
			if _, err := conn.Do(ctx, http.MethodDelete, "/_index_template/"+name, nil); err != nil && opensearchhttp.Status(err) != http.StatusNotFound {
				t.Logf("remove a template: %v", err)
			}
		}
	})
}

func contextWithCancel(t testing.TB) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
