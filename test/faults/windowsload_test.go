//go:build servers

package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
)

// windowsItem is one row of a file: what an adapter sends of it, and its expected fate.
type windowsItem struct {
	kind     string // event, mention
	batch    string
	cells    []string
	newest   int    // the version that was sent last; 0: none was
	ends     string // where it ends, if not in the index: intake, topic, index
	headless bool   // it is sent without a batch id
	broken   bool   // what is sent is not JSON
}

// Columns of the files, in their order, with their types: i integer, n number, t text.
var windowsColumns = map[string][]string{
	"event": columns("globalEventId:i day:i monthYear:i year:i fractionDate:n " + actor("actor1") + actor("actor2") +
		"isRootEvent:i eventCode:t eventBaseCode:t eventRootCode:t quadClass:i goldsteinScale:n numMentions:i numSources:i numArticles:i avgTone:n " +
		place("actor1") + place("actor2") + place("action") + "dateAdded:i sourceUrl:t"),
	"mention": columns("globalEventId:i eventTimeDate:i mentionTimeDate:i mentionType:i mentionSourceName:t mentionIdentifier:t sentenceId:i " +
		"actor1CharOffset:i actor2CharOffset:i actionCharOffset:i inRawText:i confidence:i mentionDocLen:i mentionDocTone:n mentionDocTranslationInfo:t"),
}

func columns(text string) []string { return strings.Fields(text) }

func actor(who string) (text string) {
	for _, n := range strings.Fields("Code Name CountryCode KnownGroupCode EthnicCode Religion1Code Religion2Code Type1Code Type2Code Type3Code") {
		text += who + n + ":t "
	}
	return text
}

func place(who string) (text string) {
	for _, n := range strings.Fields("GeoType:i GeoFullName:t GeoCountryCode:t GeoAdm1Code:t GeoAdm2Code:t GeoLat:n GeoLong:n GeoFeatureId:t") {
		text += who + n + " "
	}
	return text
}

// cell is the number of a column.
func cell(kind, name string) int {
	for i, c := range windowsColumns[kind] {
		if strings.HasPrefix(c, name+":") {
			return i
		}
	}
	panic("there is no column " + name)
}

// The column with an item's version.
var windowsMarks = map[string]int{"event": cell("event", "numArticles"), "mention": cell("mention", "mentionDocLen")}

const windowsMark = 100_000

// value is the JSON of a cell of a version; nil: null.
func (i *windowsItem) value(column, version int) any {
	text := i.cells[column]
	if version > 1 && column == windowsMarks[i.kind] {
		text = strconv.Itoa(windowsMark + version)
	}
	switch _, typ, _ := strings.Cut(windowsColumns[i.kind][column], ":"); {
	case text == "":
		return nil
	case typ == "t":
		return text
	}
	return json.Number(text)
}

// body is what an adapter sends of a version.
func (i *windowsItem) body(version int) []byte {
	if i.broken {
		return []byte(`{"globalEventId":` + i.cells[0])
	}
	var b strings.Builder
	for n, c := range windowsColumns[i.kind] {
		name, _, _ := strings.Cut(c, ":")
		fmt.Fprintf(&b, ",%q:%s", name, must(json.Marshal(i.value(n, version))))
	}
	return []byte("{" + b.String()[1:] + "}")
}

// out is what goes to the topic of a version, by the rules of its readers.
func (i *windowsItem) out(version int) map[string]any {
	all := map[string]any{}
	for n, c := range windowsColumns[i.kind] {
		name, _, _ := strings.Cut(c, ":")
		v := i.value(n, version)
		digits, _ := v.(json.Number)
		switch day := day(string(digits)); {
		case name == "day":
			all["elasticIndexDate"], all["eventDate"] = day, instant(day, "")
		case name == "monthYear", name == "year", name == "fractionDate", strings.HasSuffix(name, "GeoLong"):
		case strings.HasSuffix(name, "GeoLat"):
			all[strings.TrimSuffix(name, "GeoLat")+"Location"] = nil
			if lon := i.value(n+1, version); v != nil && lon != nil {
				all[strings.TrimSuffix(name, "GeoLat")+"Location"] = map[string]any{"lat": v, "lon": lon}
			}
		case name == "dateAdded", name == "eventTimeDate":
			all[name] = instant(day, string(digits))
		case name == "mentionTimeDate":
			all["elasticIndexDate"], all[name] = day, instant(day, string(digits))
		default:
			all[name] = v
		}
	}
	return all
}

// day is YYYY-MM-DD, or nil.
func day(digits string) any {
	if len(digits) < 8 {
		return nil
	}
	return digits[:4] + "-" + digits[4:6] + "-" + digits[6:8]
}

// instant is a day, or a stamp of it, in ISO 8601.
func instant(day any, stamp string) any {
	if day == nil {
		return nil
	}
	if stamp == "" {
		stamp = "00000000000000"
	}
	return day.(string) + "T" + stamp[8:10] + ":" + stamp[10:12] + ":" + stamp[12:14] + "Z"
}

// key is its message's key.
func (i *windowsItem) key() string {
	if i.kind == "event" {
		return i.cells[0]
	}
	return i.cells[0] + "_" + i.cells[5]
}

// name tells it from all other items: sentences of a document share the key.
func (i *windowsItem) name() string {
	if i.kind == "event" {
		return i.key()
	}
	return i.key() + "_" + i.cells[6]
}

// docID is the id of its document.
func (w *windowsWorld) docID(i *windowsItem) string {
	if w.bySentence {
		return i.name()
	}
	return i.key()
}

// rows cuts files into items.
func (w *windowsWorld) rows(b gdelttest.Batch) (all []*windowsItem) {
	for kind, content := range map[string][]byte{"event": b.Export(), "mention": b.MentionsFile()} {
		for line := range strings.Lines(string(content)) {
			cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			all = append(all, &windowsItem{kind: kind, batch: b.Stamp, cells: cells[:len(windowsColumns[kind])]})
		}
	}
	return all
}

// batch is the n-th pair of files: events, and three times as many mentions.
func (w *windowsWorld) batch(n, events int) gdelttest.Batch {
	return gdelttest.Batch{Stamp: fmt.Sprintf("%s%02d%02d%02d", w.day, n/3600%24, n/60%60, n%60), Events: events, Mentions: 3 * events,
		First: 1_000_000_000 + int64(n)*1_000_000, Seed: w.rnd.Uint64()}
}

// batches are the items of several pairs of files, with neighbours interleaved. They are noted
// as expected.
func (w *windowsWorld) batches(from, n, events int) (all []*windowsItem) {
	for k := range n {
		of := w.rows(w.batch(from+k, events))
		w.rnd.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		all = append(all, of...)
		w.load = max(w.load, len(of))
	}
	for i := range all {
		j := max(0, i-w.rnd.IntN(4*events))
		all[i], all[j] = all[j], all[i]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = append(w.items, all...)
	return all
}

// total is how many records were sent.
func (w *windowsWorld) total() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent["event"] + w.sent["mention"]
}

// write puts pairs of files into the folder, plain and zipped, some a second.
func (w *windowsWorld) write(n, events int, every time.Duration) (ended <-chan struct{}) {
	over := make(chan struct{})
	var all []gdelttest.Batch
	for k := range n {
		b := w.batch(k, events)
		items := w.rows(b)
		w.load = max(w.load, len(items))
		for _, i := range items {
			i.newest = 1
		}
		w.items, all = append(w.items, items...), append(all, b)
	}
	go func() {
		defer close(over)
		for k, b := range all {
			if _, err := b.Write(w.folder(), k%2 == 0); err != nil {
				w.Error(err)
				return
			}
			w.mu.Lock()
			w.sent["event"] += b.Events
			w.sent["mention"] += b.Mentions
			w.mu.Unlock()
			w.pass(every)
		}
	}()
	w.Cleanup(func() { <-over })
	return over
}

// windowsProducing tunes a producer.
type windowsProducing struct {
	Rate    int // records a second; 0: as fast as they are accepted
	Again   int // percentage followed by an earlier one, once more
	Changed int // percentage followed by a newer version of an earlier one
}

// produce is an adapter: it writes items to the topics, in order, until all are accepted.
func (w *windowsWorld) produce(items []*windowsItem, o windowsProducing) (ended <-chan struct{}) {
	over := make(chan struct{})
	client := w.kafkaClient()
	var all []*kgo.Record
	sent := map[string]int{}
	add := func(i *windowsItem, newer bool) {
		if newer {
			i.newest++
		}
		r := &kgo.Record{Topic: w.topics["in-"+i.kind], Key: []byte(i.cells[0]), Value: i.body(i.newest)}
		if !i.headless {
			r.Headers = []kgo.RecordHeader{{Key: []string{"X-Batch-ID", "batchId"}[len(all)%2], Value: []byte(i.batch)}, {Key: "__TypeId__", Value: []byte("com.example." + i.kind)}}
		}
		all = append(all, r)
		sent[i.kind]++
	}
	var before []*windowsItem
	for _, i := range items {
		add(i, true)
		if i.ends != "" {
			continue
		}
		before = append(before, i)
		draw := func() *windowsItem { // half of them recent
			if w.rnd.IntN(2) == 0 {
				return before[max(0, len(before)-1-w.rnd.IntN(600))]
			}
			return before[w.rnd.IntN(len(before))]
		}
		if w.rnd.IntN(100) < o.Again {
			add(draw(), false)
			w.again++
		}
		if w.rnd.IntN(100) < o.Changed {
			add(draw(), true)
		}
	}
	w.mu.Lock()
	for kind, n := range sent {
		w.sent[kind] += n
	}
	w.mu.Unlock()
	go func() {
		defer close(over)
		began := time.Now()
		const step = 50
		for k := 0; k < len(all); k += step {
			if o.Rate > 0 {
				w.pass(time.Until(began.Add(time.Duration(k) * time.Second / time.Duration(o.Rate))))
			}
			if err := client.ProduceSync(w.Context(), all[k:min(k+step, len(all))]...).FirstErr(); err != nil {
				if w.Context().Err() == nil {
					w.Errorf("produce: %v", err)
				}
				return
			}
		}
	}()
	w.Cleanup(func() { <-over })
	return over
}

// post sends an item by HTTP until it is accepted.
func (w *windowsWorld) post(i *windowsItem) {
	for try := 0; w.Context().Err() == nil; try++ {
		in := w.instances[try%len(w.instances)]
		r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+in.Addr+"/v1/windows/"+i.kind+"s", strings.NewReader(string(i.body(i.newest))))
		if err != nil {
			w.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Batch-ID", i.batch)
		a, err := exchange(w.http, r, "one")
		if err == nil && a.status == http.StatusAccepted {
			return
		}
		if err == nil && a.status != http.StatusServiceUnavailable {
			w.Errorf("a request was answered %d: %.300s", a.status, a.body)
			return
		}
		w.pass(50 * time.Millisecond)
	}
}
