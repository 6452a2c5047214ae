package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Expire implements search.Store. Only indices that are named as ours are looked at; that
// one is gone already is no error.
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

// old are a family's daily indices that were made then or before.
func (s *Store) old(ctx context.Context, schema *search.Schema, then time.Time) ([]string, error) {
	answer, err := s.conn.Do(ctx, http.MethodGet, "/"+schema.Name+"-*/_settings/index.creation_date?expand_wildcards=all&ignore_unavailable=true&allow_no_indices=true", nil)
	if err != nil {
		return nil, err
	}
	var said map[string]struct {
		Settings struct {
			Index struct {
				Made string `json:"creation_date"`
			} `json:"index"`
		} `json:"settings"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return nil, tidemill.Fail(tidemill.Transient, "the answer cannot be read")
	}
	var old []string
	for index, of := range said {
		day, ours := strings.CutPrefix(index, schema.Name+"-")
		ms, err := strconv.ParseInt(of.Settings.Index.Made, 10, 64)
		if ours && search.ValidDay(day) && err == nil && !time.UnixMilli(ms).After(then) {
			old = append(old, index)
		}
	}
	slices.Sort(old)
	return old, nil
}
