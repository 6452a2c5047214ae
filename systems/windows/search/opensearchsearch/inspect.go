package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/preflight"
)

// Inspect checks the cluster and our indices: whether what they acknowledge is on disk.
func (s *Store) Inspect(ctx context.Context) []preflight.Finding {
	return append(opensearchhttp.Inspect(ctx, s.conn), s.newIndices(ctx), s.durability(ctx))
}

// newIndices checks whether the new indices of the last hour are used up.
func (s *Store) newIndices(ctx context.Context) preflight.Finding {
	f := preflight.Finding{Check: "search: indices of days", Verdict: preflight.OK}
	made, err := s.made(ctx, s.all())
	if err != nil {
		f.Verdict, f.Detail, f.Advice = preflight.Warn, fmt.Sprintf("cannot be read: %v", err), "let the user read the settings of "+s.all()
		return f
	}
	fresh, hour := 0, s.o.Now().Add(-time.Hour)
	for _, at := range made {
		if at.After(hour) {
			fresh++
		}
	}
	f.Detail = fmt.Sprintf("%d of %d were made within the hour", fresh, len(made))
	if fresh >= s.o.NewIndices {
		f.Verdict = preflight.Warn
		f.Advice = fmt.Sprintf("records say many days: those of more days than %d go to a common index. Look who sends them; for an import of history, raise windows.search.new_indices", s.o.NewIndices)
	}
	return f
}

func (s *Store) durability(ctx context.Context) preflight.Finding {
	f := preflight.Finding{Check: "search: durability", Verdict: preflight.OK, Detail: "every request is on disk before it is answered"}
	answer, err := s.conn.Do(ctx, http.MethodGet, "/"+s.all()+"/_settings/index.translog.durability?expand_wildcards=all&ignore_unavailable=true", nil)
	said := map[string]struct {
		Settings struct {
			Index struct {
				Translog struct {
					Durability string `json:"durability"`
				} `json:"translog"`
			} `json:"index"`
		} `json:"settings"`
	}{}
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	if err != nil {
		f.Verdict, f.Detail, f.Advice = preflight.Warn, fmt.Sprintf("cannot be read: %v", err), "let the user read the settings of "+s.all()
		return f
	}
	var loose []string
	for name, of := range said {
		if strings.EqualFold(of.Settings.Index.Translog.Durability, "async") {
			loose = append(loose, name)
		}
	}
	if len(loose) > 0 {
		slices.Sort(loose)
		f.Verdict, f.Detail = preflight.Fail, "index.translog.durability=async: "+strings.Join(loose[:min(len(loose), 5)], ", ")
		f.Advice = "set it to request: what was acknowledged in the last seconds is lost in a crash"
	}
	return f
}
