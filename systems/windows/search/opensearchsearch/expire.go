package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Expire implements search.Store. It looks only at indices named as ours. An index that is
// already gone is not an error.
func (s *Store) Expire(ctx context.Context, now time.Time) (gone []string, err error) {
	for _, name := range s.names {
		schema := s.schemas[name]
		if schema.Keep == 0 {
			continue
		}
		old, err := s.old(ctx, schema, now.Add(-schema.Keep))
		if err != nil {
			return gone, fmt.Errorf("look for old indices of %s: %w", name, err)
		}
		for _, index := range old {
			if _, err := s.conn.Do(ctx, http.MethodDelete, "/"+index, nil); err != nil && opensearchhttp.Status(err) != http.StatusNotFound {
				return gone, fmt.Errorf("remove the old index %s: %w", index, err)
			}
			gone = append(gone, index)
		}
	}
	return gone, nil
}

// old are a family's daily indices that were made at or before a time, and its common ones
// without later documents.
func (s *Store) old(ctx context.Context, schema *search.Schema, then time.Time) ([]string, error) {
	made, err := s.made(ctx, schema.Name+"-*")
	if err != nil {
		return nil, err
	}
	var old []string
	for index, at := range made {
		rest, ours := strings.CutPrefix(index, schema.Name+"-")
		if common(rest) {
			at = at.AddDate(0, 1, 0)
		} else if !search.ValidDay(rest) {
			ours = false
		}
		if ours && !at.After(then) {
			old = append(old, index)
		}
	}
	slices.Sort(old)
	return old, nil
}
