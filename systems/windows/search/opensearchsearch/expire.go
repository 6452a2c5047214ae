package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
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
	all, err := s.dailies(ctx, schema)
	if err != nil {
		return nil, err
	}
	var old []string
	for _, d := range all {
		if !d.Made.After(then) {
			old = append(old, d.Name)
		}
	}
	slices.Sort(old)
	return old, nil
}

// dailies are a family's indices, without their bytes. A common one is as old as its last document may
// be.
func (s *Store) dailies(ctx context.Context, schema *search.Schema) (all []search.Daily, err error) {
	made, err := s.made(ctx, schema.Name+"-*")
	if err != nil {
		return nil, err
	}
	for index, at := range made {
		rest, ours := strings.CutPrefix(index, schema.Name+"-")
		if common(rest) {
			at = at.AddDate(0, 1, 0)
		} else if !search.ValidDay(rest) {
			ours = false
		}
		if ours {
			all = append(all, search.Daily{Name: index, Made: at})
		}
	}
	return all, nil
}

// Bound implements search.Store. Bytes are those that the server's indices need on its disks, with
// their replicas.
func (s *Store) Bound(ctx context.Context, most int64, young time.Time) (string, error) {
	var all []search.Daily
	for _, name := range s.names {
		some, err := s.dailies(ctx, s.schemas[name])
		if err != nil {
			return "", fmt.Errorf("look for indices of %s: %w", name, err)
		}
		all = append(all, some...)
	}
	bytes, err := s.bytes(ctx)
	if err != nil {
		return "", fmt.Errorf("look how much the search index has: %w", err)
	}
	for i := range all {
		all[i].Bytes = bytes[all[i].Name]
	}
	old, err := search.Oldest(all, most, young)
	if old == nil {
		return "", err
	}
	if _, err := s.conn.Do(ctx, http.MethodDelete, "/"+old.Name, nil); err != nil && opensearchhttp.Status(err) != http.StatusNotFound {
		return "", fmt.Errorf("remove the index %s to make room: %w", old.Name, err)
	}
	return old.Name, nil
}

// bytes are what all indices need on disks, by their names.
func (s *Store) bytes(ctx context.Context) (map[string]int64, error) {
	answer, err := s.conn.Do(ctx, http.MethodGet, "/"+s.all()+"/_stats/store?level=indices&expand_wildcards=all&filter_path=indices.*.total.store.size_in_bytes", nil)
	if opensearchhttp.Status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var said struct {
		Indices map[string]struct {
			Total struct {
				Store struct {
					Size int64 `json:"size_in_bytes"`
				} `json:"store"`
			} `json:"total"`
		} `json:"indices"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return nil, tidemill.Fail(tidemill.Transient, "the answer cannot be read")
	}
	sizes := make(map[string]int64, len(said.Indices))
	for name, of := range said.Indices {
		sizes[name] = of.Total.Store.Size
	}
	return sizes, nil
}
