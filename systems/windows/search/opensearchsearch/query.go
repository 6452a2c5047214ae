package opensearchsearch

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// object is a JSON object of the query language.
type object = map[string]any

// Search implements search.Searcher.
func (s *Store) Search(ctx context.Context, q search.Query) (search.Page, error) {
	schema := s.schemas[q.Schema]
	if schema == nil {
		return search.Page{}, search.Unknown(q.Schema)
	}
	clauses, err := q.Plan(schema)
	if err != nil {
		return search.Page{}, err
	}
	cursor, oldest := q.Way()
	body := object{
		"size": q.Hits() + 1, "query": all(schema, clauses), "sort": order(schema, oldest),
		"track_total_hits": search.MaxTotal,
	}
	if cursor != "" {
		after, err := base64.RawURLEncoding.DecodeString(cursor)
		if v := jsontext.Value(after); err != nil || !v.IsValid() || v.Kind() != '[' {
			return search.Page{}, search.BadCursor()
		}
		body["search_after"], body["track_total_hits"] = jsontext.Value(after), false
	}
	request, err := json.Marshal(body)
	if err != nil {
		return search.Page{}, fmt.Errorf("write a query: %w", err)
	}
	// A shard that does not answer makes it an error: a short page would look complete. No
	// filter_path: with it the servers rewrite documents.
	answer, err := s.conn.Do(ctx, http.MethodPost, "/"+q.Schema+"-*/_search?ignore_unavailable=true&allow_no_indices=true&allow_partial_search_results=false", request)
	if err != nil {
		return search.Page{}, fmt.Errorf("search %s: %w", q.Schema, err)
	}
	return page(answer, schema, &q)
}

// page reads the answer, which has one hit more than the page if more follow.
func page(answer []byte, schema *search.Schema, q *search.Query) (search.Page, error) {
	var said struct {
		TimedOut bool `json:"timed_out"`
		Hits     struct {
			Total struct {
				Value int `json:"value"`
			} `json:"total"`
			Hits []found `json:"hits"`
		} `json:"hits"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return search.Page{}, tidemill.Fail(tidemill.Transient, "search %s: the answer cannot be read", schema.Name)
	}
	if said.TimedOut {
		return search.Page{}, tidemill.Fail(tidemill.Timeout, "search %s: the server gave up; ask for a shorter time", schema.Name)
	}
	p := search.Paged(q, said.Hits.Hits, func(f found) search.Hit {
		day, id := hit(schema.Name, f.Index, f.Routing, f.ID)
		return search.Hit{Day: day, ID: id, Body: f.Source}
	}, func(f found) string { return base64.RawURLEncoding.EncodeToString(f.Sort) })
	p.Total = min(said.Hits.Total.Value, search.MaxTotal)
	return p, nil
}

// found is a hit as the server says it.
type found struct {
	Index   string         `json:"_index"`
	ID      string         `json:"_id"`
	Routing string         `json:"_routing"`
	Source  jsontext.Value `json:"_source"`
	Sort    jsontext.Value `json:"sort"`
}

// order sorts by time, the schema's order and the day. Documents without a value count as the
// lowest. The servers have to be told: they put them last in either direction.
func order(s *search.Schema, oldest bool) []object {
	direction := "desc"
	if oldest {
		direction = "asc"
	}
	by := []object{{s.Time: object{"order": direction, "missing": search.NoTime, "unmapped_type": "date"}}}
	for _, name := range s.Order {
		t, missing := search.Keyword, any("")
		for _, f := range s.Fields {
			if f.Name == name && f.Type != search.Keyword {
				t, missing = f.Type, int64(math.MinInt64)
			}
		}
		by = append(by, object{name: object{"order": direction, "missing": missing, "unmapped_type": t}})
	}
	return append(by, object{"_index": object{"order": direction}})
}

// all makes a query of conditions. They are filters: nothing is scored.
func all(s *search.Schema, clauses []search.Clause) object {
	var must, not []object
	for i := range clauses {
		if clauses[i].Not {
			not = append(not, one(s, &clauses[i]))
		} else {
			must = append(must, one(s, &clauses[i]))
		}
	}
	b := object{}
	if must != nil {
		b["filter"] = must
	}
	if not != nil {
		b["must_not"] = not
	}
	return object{"bool": b}
}

func one(s *search.Schema, c *search.Clause) object {
	if c.Words != nil && c.Field == search.Any {
		var names []string
		for _, i := range s.Texts() {
			names = append(names, s.Fields[i].Name)
		}
		return object{"multi_match": object{"query": c.Text, "type": "phrase", "fields": names}}
	}
	f := &s.Fields[c.Field]
	switch {
	case c.Words != nil:
		return object{"match_phrase": object{f.Name: object{"query": c.Text}}}
	case c.Sub:
		return object{"term": object{f.Name + ".keyword": object{"value": c.Equal}}}
	case !c.Range && f.Type == search.Double && c.Equal == "0":
		return object{"range": object{f.Name: object{"gte": belowZero, "lte": 0}}}
	case !c.Range:
		return object{"term": object{f.Name: object{"value": c.Equal}}}
	}
	r := object{}
	if c.Low.Set {
		r[map[bool]string{false: "gte", true: "gt"}[c.Low.Open]] = bound(f, &c.Low, !c.Low.Open)
	}
	if c.High.Set {
		r[map[bool]string{false: "lte", true: "lt"}[c.High.Open]] = bound(f, &c.High, c.High.Open)
	}
	if f.Type == search.Date {
		r["format"] = "epoch_millis"
	}
	return object{"range": object{f.Name: r}}
}

// belowZero is a value that the servers order before 0, and we do not. As a number it would be
// 0.
const belowZero = "-0.0"

// bound is one end of a range. Times are texts: servers misread numbers before 1970.
func bound(f *search.Field, b *search.Bound, before bool) any {
	switch f.Type {
	case search.Double:
		if before && b.Float == 0 {
			return belowZero
		}
		return b.Float
	case search.Date:
		return strconv.FormatInt(b.Int, 10)
	}
	return b.Int
}
