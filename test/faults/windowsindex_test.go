//go:build servers

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// windowsDoc is a document of the index.
type windowsDoc struct {
	day, id string
	body    json.RawMessage
}

// request asks the OpenSearch.
func (w *windowsWorld) request(ctx context.Context, method, path, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.index+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if r.Header.Set("Content-Type", "application/json"); body == "" {
		r.Header.Del("Content-Type")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// askIndex makes a request that has to succeed, and reads the answer.
func (w *windowsWorld) askIndex(method, path, body string, into any) {
	w.Helper()
	status, b, err := w.request(w.Context(), method, path, body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%d %.500s", status, b)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		w.Fatalf("index: %s %s: %v", method, path, err)
	}
}

// indexOf is the index of this world's day.
func (w *windowsWorld) indexOf(kind string) string {
	return "gdelt-" + kind + "s-" + day(w.day).(string)
}

func (w *windowsWorld) deleteIndices(ctx context.Context) {
	for _, kind := range []string{"event", "mention"} {
		if _, _, err := w.request(ctx, http.MethodDelete, "/"+w.indexOf(kind), ""); err != nil {
			w.Logf("delete an index: %v", err)
		}
	}
}

// docs are all documents of a kind, in any index.
func (w *windowsWorld) docs(kind string) (all []windowsDoc) {
	w.Helper()
	if w.index == "" {
		return w.embeddedDocs(kind)
	}
	index := w.indexOf(kind)
	if status, _, err := w.request(w.Context(), http.MethodPost, "/"+index+"/_refresh", ""); err == nil && status == http.StatusNotFound {
		return nil
	}
	type page struct {
		Scroll string `json:"_scroll_id"`
		Hits   struct {
			Hits []struct {
				ID     string          `json:"_id"`
				Index  string          `json:"_index"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	var p page
	w.askIndex(http.MethodPost, "/"+index+"/_search?scroll=1m", `{"size":5000,"sort":["_doc"]}`, &p)
	for len(p.Hits.Hits) > 0 {
		for _, h := range p.Hits.Hits {
			all = append(all, windowsDoc{strings.TrimPrefix(h.Index, "gdelt-"+kind+"s-"), h.ID, h.Source})
		}
		scroll := p.Scroll
		p = page{}
		w.askIndex(http.MethodPost, "/_search/scroll", fmt.Sprintf(`{"scroll":"1m","scroll_id":%q}`, scroll), &p)
	}
	return all
}

// embeddedDocs asks the search API, page by page.
func (w *windowsWorld) embeddedDocs(kind string) (all []windowsDoc) {
	w.Helper()
	for after := ""; ; {
		var p struct {
			Total *int
			Hits  []struct {
				Day, ID  string
				Document json.RawMessage
			}
			Next string
		}
		b := w.must(http.MethodGet, "search?"+url.Values{"family": {kind + "s"}, "size": {"500"}, "after": {after}}.Encode())
		if err := json.Unmarshal(b, &p); err != nil {
			w.Fatal(err)
		}
		for _, h := range p.Hits {
			all = append(all, windowsDoc{h.Day, h.ID, h.Document})
		}
		if after = p.Next; after == "" {
			return all
		}
	}
}

// decode reads an object with its numbers as written.
func decode(b []byte) (m map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&m)
	return m, err
}

// Types of the index that its readers rely on.
var windowsTypes = map[string]string{
	"event": "long globalEventId; date eventDate dateAdded; byte isRootEvent; short actor1GeoType actor2GeoType; integer quadClass numMentions numSources numArticles actionGeoType;" +
		"double goldsteinScale avgTone; geo_point actor1Location actor2Location actionLocation;" +
		"text actor1Name actor2Name actor1GeoFullName actor2GeoFullName actionGeoFullName;" +
		"keyword actor1Code actor1CountryCode actor2GeoCountryCode actor2Type3Code eventCode eventBaseCode eventRootCode actionGeoAdm1Code actionGeoFeatureId sourceUrl",
	"mention": "long globalEventId; date eventTimeDate mentionTimeDate; keyword mentionIdentifier; text mentionSourceName mentionDocTranslationInfo; byte inRawText;" +
		"integer mentionType sentenceId actor1CharOffset actor2CharOffset actionCharOffset confidence mentionDocLen; double mentionDocTone",
}

// splitTypes are pairs of type and field.
func splitTypes(text string) (all [][2]string) {
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		for _, field := range words[1:] {
			all = append(all, [2]string{words[0], field})
		}
	}
	return all
}

// judgeIndex compares mapping, settings, places and dates in OpenSearch.
func (w *windowsWorld) judgeIndex(docs map[string][]windowsDoc, fault func(string, ...any)) {
	w.Helper()
	for _, kind := range []string{"event", "mention"} {
		if len(docs[kind]) == 0 {
			continue
		}
		name := w.indexOf(kind)
		var said map[string]struct {
			Mappings struct {
				Properties map[string]struct{ Type string }
			}
			Settings struct {
				Index struct {
					Shards   string `json:"number_of_shards"`
					Replicas string `json:"number_of_replicas"`
				}
			}
		}
		w.askIndex(http.MethodGet, "/"+name, "", &said)
		index := said[name]
		for _, pair := range splitTypes(windowsTypes[kind]) {
			if got := index.Mappings.Properties[pair[1]].Type; got != pair[0] {
				fault("the index has %s as %q, want %s", pair[1], got, pair[0])
			}
		}
		if _, there := index.Mappings.Properties["elasticIndexDate"]; there || index.Settings.Index.Shards != "1" || index.Settings.Index.Replicas != "0" {
			fault("index %s: %+v", name, index.Settings)
		}
	}
	count := func(kind, query string) (n int) {
		var said struct{ Count int }
		w.askIndex(http.MethodPost, "/"+w.indexOf(kind)+"/_count", `{"query":`+query+`}`, &said)
		return said.Count
	}
	if len(docs["event"]) == 0 {
		return
	}
	north, root := 0, 0 // with a place in the north-east, and root events of this day
	for _, d := range docs["event"] {
		m, err := decode(d.body)
		if err != nil {
			fault("%s: %v", d.id, err)
			continue
		}
		if p, ok := m["actionLocation"].(map[string]any); ok {
			lat, _ := p["lat"].(json.Number).Float64()
			lon, _ := p["lon"].(json.Number).Float64()
			if lat >= 0 && lon >= 0 {
				north++
			}
		}
		if m["isRootEvent"] == json.Number("1") {
			root++
		}
	}
	if n := count("event", `{"geo_bounding_box":{"actionLocation":{"top_left":{"lat":90,"lon":0},"bottom_right":{"lat":0,"lon":180}}}}`); n < north-1 || n > north+1 { // rounding at the edges
		fault("%d events are found by their place, want %d", n, north)
	}
	if n := count("event", `{"bool":{"filter":[{"term":{"isRootEvent":1}},{"range":{"eventDate":{"gte":"`+day(w.day).(string)+`","lte":"`+day(w.day).(string)+`"}}}]}}`); n != root {
		fault("%d root events are found by their day, want %d", n, root)
	}
}

// judgeEmbedded checks the same in the index of the file.
func (w *windowsWorld) judgeEmbedded(docs map[string][]windowsDoc, fault func(string, ...any)) {
	w.Helper()
	root := 0
	for _, d := range docs["event"] {
		if m, err := decode(d.body); err == nil && m["isRootEvent"] == json.Number("1") {
			root++
		}
	}
	q := url.Values{"family": {"events"}, "q": {"isRootEvent:1 eventDate:" + day(w.day).(string)}}
	var said struct {
		Total   int
		AtLeast bool `json:"at_least"`
	}
	if err := json.Unmarshal(w.must(http.MethodGet, "search?"+q.Encode()), &said); err != nil || said.Total != root && !said.AtLeast {
		fault("%d root events are found by their day, want %d (%v)", said.Total, root, err)
	}
}

// places are the documents that have a well-formed place.
func places(docs []windowsDoc) (n int) {
	for _, d := range docs {
		m, err := decode(d.body)
		if err != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if p, ok := m[name].(map[string]any); ok && strings.HasSuffix(name, "Location") && len(p) == 2 && p["lat"] != nil && p["lon"] != nil {
				n++
				break
			}
		}
	}
	return n
}
