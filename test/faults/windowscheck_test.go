//go:build servers

package faults

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tidemill/tidemill/systems/windows"
)

// windowsLetter is a dead letter, as the API shows it.
type windowsLetter struct {
	Seq                                       int64
	ID, Pipeline, State, Kind, Cause, Payload string
	Tries                                     int
}

// windowsAllowance is what a fault may have done.
type windowsAllowance struct {
	repeats int  // repeated messages in topics
	lost    bool // records may be missing: the test itself checks which
	parked  int  // windows that must be parked
}

// windowsOutcome is the state of everything.
type windowsOutcome struct {
	audit   windows.Audit
	windows []windowsWindow
	letters []windowsLetter
	topics  map[string][]windowsMessage // by kind
	dead    map[string][]windowsMessage // copies, by kind
	docs    map[string][]windowsDoc     // by kind
}

// look reads topics, index, dead letters, windows and books, when all is quiet.
func (w *windowsWorld) look(within time.Duration) windowsOutcome {
	w.Helper()
	o := windowsOutcome{audit: w.quiet(within), windows: w.windows(), letters: windowsLines[windowsLetter](w, "dead"),
		topics: map[string][]windowsMessage{}, dead: map[string][]windowsMessage{}, docs: map[string][]windowsDoc{}}
	for _, kind := range []string{"event", "mention"} {
		if len(w.brokers) > 0 {
			o.topics[kind] = w.read(w.topics["out-"+kind], true)
		}
		if w.noIndex {
			continue
		}
		if len(w.brokers) > 0 {
			o.dead[kind] = w.read(w.topics["dead-"+kind], true)
		}
		o.docs[kind] = w.docs(kind)
	}
	return o
}

// version is the item's version in a message or document; 0: none that was sent.
func (i *windowsItem) version(m map[string]any) int {
	mark := strings.SplitN(windowsColumns[i.kind][windowsMarks[i.kind]], ":", 2)[0]
	version := 1
	if n, ok := m[mark].(json.Number); ok {
		if v, err := n.Int64(); err == nil && v > windowsMark {
			version = int(v - windowsMark)
		}
	}
	if version > i.newest {
		return 0
	}
	return version
}

// judge says what is wrong with the records' destinations.
func (w *windowsWorld) judge(o windowsOutcome, allow windowsAllowance) (faults []string) {
	w.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	w.mu.Lock()
	defer w.mu.Unlock()
	byName := map[string]*windowsItem{} // kind and name
	for _, i := range w.items {
		byName[i.kind+" "+i.name()] = i
	}
	last := map[string]map[string]any{} // by kind and document
	if len(w.brokers) > 0 {
		last = w.judgeTopics(o, byName, allow, fault)
	}
	w.judgeLetters(o, byName, fault)
	if !w.noIndex {
		w.judgeDocs(o, last, byName, allow, fault)
	}
	switch {
	case w.noIndex:
	case w.index != "":
		w.judgeIndex(o.docs, fault)
	default:
		w.judgeEmbedded(o.docs, fault)
	}
	if !o.audit.Balanced && !allow.lost {
		fault("the books say %+v", o.audit)
	}
	if len(o.windows) != allow.parked {
		fault("%d windows are left, %d are to be parked: %+v", len(o.windows), allow.parked, o.windows)
	}
	for _, p := range o.audit.Pipelines {
		held := 0
		for _, l := range o.letters {
			if l.Pipeline == p.Pipeline {
				held++
			}
		}
		if int(p.Letters.Held) != held {
			fault("the books of %s say %+v, there are %d letters", p.Pipeline, p, held)
		}
	}
	if n := places(o.docs["event"]); n < len(o.docs["event"])/2 {
		fault("%d of %d events have a place", n, len(o.docs["event"]))
	}
	return faults
}

// judgeTopics checks every committed message. It returns the last of each document.
func (w *windowsWorld) judgeTopics(o windowsOutcome, byName map[string]*windowsItem, allow windowsAllowance, fault func(string, ...any)) map[string]map[string]any {
	type seen struct {
		last int            // version
		of   map[int]int    // how often each version is there
		at   map[int32]bool // partitions
	}
	found, last := map[*windowsItem]*seen{}, map[string]map[string]any{}
	messages, distinct := 0, 0
	for kind, all := range o.topics {
		for _, m := range all {
			messages++
			doc, err := decode(m.value)
			if err != nil {
				fault("%s %q: %v: %.200s", kind, m.key, err, m.value)
				continue
			}
			name := m.key
			if kind == "mention" {
				name += "_" + fmt.Sprint(doc["sentenceId"])
			}
			i := byName[kind+" "+name]
			if i == nil || i.ends == "intake" || i.ends == "topic" {
				fault("%s %q is on the topic, and nobody has sent it, or it was to be refused", kind, name)
				continue
			}
			v := i.version(doc)
			if want := i.out(v); v == 0 || !reflect.DeepEqual(doc, want) {
				fault("%s %q, version %d: it went out as %.300s, want %v", kind, name, v, m.value, want)
				continue
			}
			s := found[i]
			if s == nil {
				s = &seen{of: map[int]int{}, at: map[int32]bool{}}
				found[i] = s
			}
			if s.last, s.at[m.partition] = v, true; s.of[v] == 0 {
				distinct++
			}
			s.of[v]++
			last[kind+" "+w.docID(i)] = doc
		}
	}
	missing := 0
	for _, i := range w.items {
		s := found[i]
		switch {
		case i.newest == 0 || i.ends == "intake" || i.ends == "topic":
		case s == nil:
			if missing++; !allow.lost {
				fault("%s %s of batch %s was sent in %d versions, and is not on the topic", i.kind, i.name(), i.batch, i.newest)
			}
		case s.last != i.newest && !allow.lost:
			fault("%s %s of batch %s: the last on the topic is version %d, want %d; it has %v", i.kind, i.name(), i.batch, s.last, i.newest, s.of)
		case len(s.at) > 1:
			fault("%s %s is in several partitions", i.kind, i.name())
		}
	}
	repeats := messages - distinct
	if most := allow.repeats + w.again; repeats > most {
		fault("%d messages are there once more, %d may be", repeats, most)
	}
	if delivered := int(booksOf(o.audit, windows.Delivered).Delivered); messages < delivered && !allow.lost && !w.forgets {
		fault("%d messages are on the topics, the books say %d were delivered", messages, delivered)
	}
	w.Logf("topics: %d messages, %d of them once more (%d records were sent again, %d kills); missing %d; books of windows %+v",
		messages, repeats, w.again, w.hits["kill"], missing, booksOf(o.audit, windows.Delivered))
	return last
}

// judgeDocs checks every document.
func (w *windowsWorld) judgeDocs(o windowsOutcome, last map[string]map[string]any, byName map[string]*windowsItem, allow windowsAllowance, fault func(string, ...any)) {
	want := map[string][]*windowsItem{} // by kind and document: sentences may share one
	for _, i := range w.items {
		if i.newest > 0 && i.ends == "" {
			id := i.kind + " " + w.docID(i)
			want[id] = append(want[id], i)
		}
	}
	there := map[string]bool{}
	for kind, docs := range o.docs {
		for _, d := range docs {
			id := kind + " " + d.id
			got, err := decode(d.body)
			switch {
			case there[id]:
				fault("%s is in the index twice", id)
			case err != nil:
				fault("%s: %v", id, err)
			case len(want[id]) == 0:
				fault("%s is in the index, and is not to be", id)
			case d.day != day(w.day):
				fault("%s is in the index of %s", id, d.day)
			}
			there[id] = true
			if err != nil || len(want[id]) == 0 || allow.lost {
				continue
			}
			right := false
			for _, i := range want[id] {
				newest := i.out(i.newest)
				delete(newest, "elasticIndexDate")
				right = right || reflect.DeepEqual(got, newest)
			}
			if l := last[id]; right && l != nil {
				delete(l, "elasticIndexDate")
				right = reflect.DeepEqual(got, l)
			}
			if !right {
				fault("%s is in the index as %.300s; newest of %d, the last on the topic %v", id, d.body, want[id][0].newest, last[id])
			}
		}
	}
	for id, items := range want {
		if !there[id] && !allow.lost {
			fault("%s of batch %s is not in the index", id, items[0].batch)
		}
	}
	w.Logf("index: %d events, %d mentions, want %d in all", len(o.docs["event"]), len(o.docs["mention"]), len(want))
}

// judgeLetters checks that exactly the expected records are dead letters, in the right
// pipelines, and that those refused by the index are on the topics for that with their cause.
func (w *windowsWorld) judgeLetters(o windowsOutcome, byName map[string]*windowsItem, fault func(string, ...any)) {
	letters := map[*windowsItem]int{}
	bodies := map[string]*windowsItem{} // of records refused on their way in, or by a topic
	for _, i := range w.items {
		if i.ends == "intake" || i.ends == "topic" {
			bodies[string(i.body(max(i.newest, 1)))] = i
		}
	}
	of := map[string]string{windowsEvents: "intake", windowsMentions: "intake", windowsFiles: "intake", windows.Delivered: "topic",
		windows.Delivered + ".replay": "topic", "windows-index-events": "index", "windows-index-mentions": "index"}
	for _, l := range o.letters {
		i := bodies[l.Payload]
		if of[l.Pipeline] == "index" {
			i = w.indexed(l.Payload, byName)
		}
		if i == nil || i.ends != of[l.Pipeline] || l.Kind != "validation" || l.State != "held" {
			fault("a letter is not meant to be: %+v", l)
			continue
		}
		letters[i]++
	}
	for _, i := range w.items {
		if i.newest > 0 && i.ends != "" && letters[i] == 0 {
			fault("%s %s is to end in a letter of %s, and has none", i.kind, i.name(), i.ends)
		}
	}
	copied := map[string]bool{}
	for kind, copies := range o.dead {
		for _, c := range copies {
			copied[c.headers["__connect.errors.topic"]+"/"+c.headers["__connect.errors.partition"]+"/"+c.headers["__connect.errors.offset"]] = true
			i := w.indexed(string(c.value), byName)
			if i == nil || i.ends != "index" || i.key() != c.key {
				fault("a copy on the topic for dead %ss is not meant to be: %q %v %.200s", kind, c.key, c.headers, c.value)
			}
			if c.headers["__connect.errors.exception.class.name"] == "" || c.headers["__connect.errors.exception.message"] == "" {
				fault("a copy of %q does not say why: %v", c.key, c.headers)
			}
		}
	}
	for kind, all := range o.topics {
		for _, m := range all {
			i := w.indexed(string(m.value), byName)
			if at := fmt.Sprintf("%s/%d/%d", w.topics["out-"+kind], m.partition, m.offset); i != nil && i.ends == "index" && !copied[at] {
				fault("%s %q at %s was refused by the index, and no copy says so", kind, m.key, at)
			}
		}
	}
}

// indexed finds the item of a message of a topic.
func (w *windowsWorld) indexed(value string, byName map[string]*windowsItem) *windowsItem {
	m, err := decode([]byte(value))
	if err != nil {
		return nil
	}
	if _, ok := m["mentionIdentifier"]; !ok {
		return byName[fmt.Sprintf("event %v", m["globalEventId"])]
	}
	return byName[fmt.Sprintf("mention %v_%v_%v", m["globalEventId"], m["mentionIdentifier"], m["sentenceId"])]
}

// crashes is what the kills so far may have caused: each leased window may be sent again, and
// each record on its way into a window may open another one.
func (w *windowsWorld) crashes() windowsAllowance {
	const atOnce, intake = 2, 2 * 2 * 2 * 200 // of both intakes
	return windowsAllowance{repeats: w.hits["kill"] * (atOnce*w.load + intake)}
}

// finish waits until all is quiet and checks it.
func (w *windowsWorld) finish(allow windowsAllowance) windowsOutcome {
	w.Helper()
	o := w.look(afterWindows)
	w.complain(w.judge(o, allow))
	if st := w.status(); st.Lost != 0 && !allow.lost {
		w.Errorf("%d records are said to be lost", st.Lost)
	}
	return o
}
