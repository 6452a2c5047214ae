package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// report is one message as a producer brings it: a record, in one of its versions, or something
// that is not a record. No two have the same bytes.
type report struct {
	n        int
	kind     record.Kind
	batch    string // id
	event    string // the key it comes under
	id       string // the key of the record, under which it is sent
	sentence string // its qualifier
	raw      []byte
	header   []tidemill.Field
	at       time.Duration // since the beginning

	bad      bool // not a record, or of no batch
	filtered bool // a processor skips it
	against  bool // a processor refuses it
	damaged  bool // its bytes in the store are not what was put
	large    bool // topics refuse it for good
	unfit    bool // the index refuses it
	dayless  bool // the index has no day for it

	fresh, over              int // how often it was put: as a new record, over another
	delivered, skipped, dead int // how its messages ended, replays included
	came                     bool
	reader                   *process         // the process that was handed it last
	turn                     int              // when, among all that were handed out
	hands                    map[*process]int // how often it was handed to each process
}

func (r *report) String() string {
	return fmt.Sprintf("report %d (%s %s/%s of %s)", r.n, r.kind, r.id, r.sentence, r.batch)
}

// stored is the window store's name for a batch of this world, which has one project.
func stored(batch string) string { return record.NewBatch(project.ID("default"), batch).String() }

// name identifies a record within a window.
func (r *report) name() string { return r.kind.String() + " " + r.id + " " + r.sentence }

// mortal reports whether the record becomes a dead letter on its way out in any case.
func (r *report) mortal() bool { return r.damaged || !r.filtered && (r.against || r.large) }

func (r *report) topics() (in, out string) {
	if r.kind == record.Mention {
		return mentionIn, mentionOut
	}
	return eventIn, eventOut
}

// document is the record's name in the index.
func (w *windowsWorld) document(r *report) string {
	if w.each && r.kind == record.Mention {
		return r.id + "_" + r.sentence
	}
	return r.id
}

// draw makes the producers' messages. Some documents have names that continue another's, as
// those of pages do.
func (w *windowsWorld) draw(draw *rand.Rand) {
	batches := []string{"20250323151500", "a batch", "b/7", "b"}[:2+draw.IntN(3)]
	if draw.IntN(3) == 0 && !w.peace {
		w.verbose = batches[draw.IntN(len(batches))]
	}
	for _, batch := range batches {
		n, counts := 4+draw.IntN(12), draw.IntN(3) == 0
		for range n {
			w.reports = append(w.reports, w.drawReport(batch, draw))
		}
		if counts {
			for _, r := range w.reports[len(w.reports)-n:] {
				r.header = append(r.header, tidemill.Field{Name: []byte(countHeader), Value: strconv.AppendInt(nil, int64(n/2), 10)})
			}
		}
	}
	for range draw.IntN(4) {
		r := w.drawReport(batches[0], draw)
		switch r.bad = true; draw.IntN(3) {
		case 0:
			r.header = nil
		case 1:
			r.header[0].Value = []byte("a\x00b")
		case 2:
			r.raw = fmt.Appendf(nil, `{"globalEventId":"none","%s":%d}`, number[r.kind], r.n)
		}
		w.reports = append(w.reports, r)
	}
}

// number is the value that identifies a report, whatever becomes of it.
var number = map[record.Kind]string{record.Event: "numArticles", record.Mention: "mentionDocLen"}

func (w *windowsWorld) drawReport(batch string, draw *rand.Rand) *report {
	r := &report{n: len(w.reports), hands: map[*process]int{}, kind: record.Kind(1 + draw.IntN(2)), batch: batch, at: time.Duration(draw.Int64N(int64(15 * time.Second)))}
	if draw.IntN(3) == 0 {
		r.at += time.Duration(draw.Int64N(int64(40 * time.Second)))
	}
	event := 10*len(batch) + draw.IntN(5) // another batch has others
	r.event = strconv.Itoa(event)
	r.id = r.event
	one := func() bool { return draw.IntN(12) == 0 && !w.peace }
	r.damaged, r.large, r.against, r.unfit, r.dayless = one(), one(), one(), one(), one()
	day := "20250323"
	if r.dayless {
		day = "null"
	}
	if r.kind == record.Event {
		mentions := draw.IntN(6)
		r.filtered = mentions == 0
		r.raw = fmt.Appendf(nil, ` {"globalEventId":%d,"day":%s,"numMentions":%d,"numArticles":%d}`, event, day, mentions, r.n)
	} else {
		url := []string{"https://example.com/a", "https://example.com/a/1", "https://example.com/a_1"}[draw.IntN(3)]
		r.id += "_" + url
		if n := draw.IntN(3); n > 0 {
			r.sentence = strconv.Itoa(n)
		}
		if r.dayless {
			day = "null"
		} else {
			day += "151500"
		}
		sentence := r.sentence
		if sentence == "" {
			sentence = "null"
		}
		r.raw = fmt.Appendf(nil, `{"mentionIdentifier":"%s","globalEventId":%d,"sentenceId":%s,"mentionTimeDate":%s,"mentionDocLen":%d}`, url, event, sentence, day, r.n)
	}
	r.header = []tidemill.Field{{Name: []byte([]string{record.BatchHeader, record.BatchHeaderToo}[draw.IntN(2)]), Value: []byte(batch)}}
	return r
}

var ofReport = regexp.MustCompile(`"(?:numArticles|mentionDocLen)":(\d+)`)

// of is the report that bytes are made from, or nil.
func (w *windowsWorld) of(payload []byte) *report {
	if m := ofReport.FindSubmatch(payload); m != nil {
		if n, err := strconv.Atoi(string(m[1])); err == nil && n < len(w.reports) {
			return w.reports[n]
		}
	}
	return nil
}

// goesOut reports whether bytes are the record's outgoing form, enriched or not.
func (r *report) goesOut(payload []byte) bool {
	var x record.Record
	if record.Decode(r.kind, r.raw, &x) != nil {
		return false
	}
	if string(x.AppendOut(nil)) == string(payload) {
		return true
	}
	return x.Add(moodName, moodValue) == nil && string(x.AppendOut(nil)) == string(payload)
}

// chance is true once in so many, for something that happens now: the same for every caller.
func (w *windowsWorld) chance(of int, what ...any) bool {
	if w.g.calm || w.peace {
		return false
	}
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, w.seed, what)
	return h.Sum64()>>7%uint64(of) == 0
}

// lately is the time in steps, for faults that last a while.
func lately(step time.Duration) int64 { return int64(time.Since(epoch) / step) }

// produce brings a producer's share, several at once, each until it is in its topic.
func (w *windowsWorld) produce(n int) {
	var mine []*report
	for i := n; i < len(w.reports); i += windowsProducers {
		mine = append(mine, w.reports[i])
	}
	slices.SortStableFunc(mine, func(a, b *report) int { return int(a.at - b.at) })
	rnd := rand.New(rand.NewPCG(w.seed, 0xb41+uint64(n)))
	for len(mine) > 0 {
		some := mine[:min(1+rnd.IntN(4), len(mine))]
		mine = mine[len(some):]
		_ = sleep.For(w.ctx, time.Until(epoch.Add(some[len(some)-1].at)))
		for w.ctx.Err() == nil && w.bring(n, some) != nil {
			_ = sleep.For(w.ctx, time.Duration(100+rnd.IntN(1000))*time.Millisecond)
		}
	}
}

func (w *windowsWorld) bring(producer int, some []*report) error {
	var all []*tidemill.Message
	for _, r := range some {
		to, _ := r.topics()
		all = append(all, &tidemill.Message{ID: fmt.Sprint("m-", r.n), To: to, Key: []byte(r.event), Payload: r.raw, Header: r.header})
	}
	return w.g.do(outsider(), "bring", fmt.Sprint(producer), func() error {
		if err := w.queues.Add(context.Background(), all, nil); err != nil {
			return err
		}
		w.book.Lock()
		defer w.book.Unlock()
		for _, r := range some {
			r.came = true
		}
		return nil
	})
}
