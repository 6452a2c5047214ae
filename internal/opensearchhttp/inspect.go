package opensearchhttp

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill/internal/preflight"
)

// Inspect checks the cluster: its version, its state, whether it makes indices by itself and
// has room for more. Anything that cannot be read is a finding too.
func Inspect(ctx context.Context, c *Conn) []preflight.Finding {
	status, nodes, shards := c.state(ctx)
	return append([]preflight.Finding{c.ofVersion(), status}, c.settings(ctx, nodes, shards)...)
}

func (c *Conn) ofVersion() preflight.Finding {
	f := preflight.Finding{Check: "search: version", Verdict: preflight.OK, Detail: strings.TrimSpace(c.product + " " + c.version)}
	major, _, _ := strings.Cut(c.version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case c.product == "":
		f.Verdict, f.Detail, f.Advice = preflight.Warn, "the server does not say what it is", "let the user see /, or look at the address"
	case c.version == "":
		// It did not say. It refuses or does each request.
	case err != nil || c.product == Elasticsearch && n < 7:
		f.Verdict, f.Advice = preflight.Fail, "use OpenSearch, or Elasticsearch 7.8 or newer"
	case c.product == Elasticsearch && n < 8 || c.product == OpenSearch && n < 2:
		f.Verdict, f.Advice = preflight.Warn, "OpenSearch 2 and Elasticsearch 8 are known to work"
	}
	return f
}

// state also returns how many nodes hold data and how many shards exist; 0: unknown.
func (c *Conn) state(ctx context.Context) (f preflight.Finding, nodes, shards int) {
	f = preflight.Finding{Check: "search: cluster", Verdict: preflight.OK}
	answer, err := c.Do(ctx, http.MethodGet, "/_cluster/health?timeout=1s", nil)
	var said struct {
		Status string `json:"status"`
		Nodes  int    `json:"number_of_data_nodes"`
		Shards int    `json:"active_shards"`
	}
	if err == nil {
		err = json.Unmarshal(answer, &said)
	}
	if err != nil {
		return unread(f, err), 0, 0
	}
	f.Detail = fmt.Sprintf("%s, %d nodes with data, %d shards", said.Status, said.Nodes, said.Shards)
	if said.Status == "red" {
		f.Verdict, f.Advice = preflight.Fail, "a shard is missing: what lies in it is not found, and its index takes nothing"
	}
	return f, said.Nodes, said.Shards
}

func (c *Conn) settings(ctx context.Context, nodes, shards int) []preflight.Finding {
	making := preflight.Finding{Check: "search: new indices", Verdict: preflight.OK, Detail: "made by the server"}
	room := preflight.Finding{Check: "search: room for indices", Verdict: preflight.OK}
	answer, err := c.Do(ctx, http.MethodGet, "/_cluster/settings?include_defaults=true&filter_path=*.action.auto_create_index,*.cluster.max_shards_per_node", nil)
	type level struct {
		Action struct {
			Making string `json:"auto_create_index"`
		} `json:"action"`
		Cluster struct {
			Shards string `json:"max_shards_per_node"`
		} `json:"cluster"`
	}
	var said struct{ Defaults, Persistent, Transient level }
	if err == nil {
		err = json.Unmarshal(answer, &said, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		return []preflight.Finding{unread(making, err)}
	}
	most := 0
	for _, l := range []level{said.Defaults, said.Persistent, said.Transient} { // the last one that is set counts
		if l.Action.Making != "" {
			making.Detail = "action.auto_create_index=" + l.Action.Making
		}
		if l.Cluster.Shards != "" {
			most, _ = strconv.Atoi(l.Cluster.Shards)
		}
	}
	if strings.HasSuffix(making.Detail, "=false") {
		making.Verdict, making.Advice = preflight.Fail, "allow it for our names: action.auto_create_index; else no document of a new day is taken"
	}
	found := []preflight.Finding{making}
	if most > 0 && nodes > 0 {
		room.Detail = fmt.Sprintf("%d of %d shards", shards, most*nodes)
		if left := most*nodes - shards; left < 10 {
			room.Verdict, room.Advice = preflight.Warn, "remove old indices or raise cluster.max_shards_per_node: each day needs one for events and one for mentions"
		}
		found = append(found, room)
	}
	return found
}

func unread(f preflight.Finding, err error) preflight.Finding {
	f.Verdict, f.Detail, f.Advice = preflight.Warn, fmt.Sprintf("cannot be read: %v", err), "let the user monitor the cluster"
	return f
}
