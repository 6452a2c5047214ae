package kafkasource

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/tidemill/tidemill"
)

func TestARowComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(t)
		want := p.state(rapid.Bool().Draw(t, "leaving"))
		text := want.text()
		got, ours, err := parseRow(p.mark, text)
		if err != nil || !ours {
			t.Fatalf("%q: %v, ours %v", text, err, ours)
		}
		if len(text) > maxMetadata {
			t.Fatalf("%d bytes of metadata", len(text))
		}
		if len(got.tries) < len(want.tries) { // those there was no room for
			want.tries = want.tries[:len(got.tries)]
		}
		if len(got.tries) == 0 {
			got.tries, want.tries = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\nis  %+v\nwas %+v", text, got, want)
		}
	})
}

// drawn is a partition to which anything may have happened.
func drawn(t *rapid.T) *partition {
	base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
	ahead := rapid.SampledFrom([]int64{1, 7, 100, maxAhead}).Draw(t, "ahead")
	p := newPartition(0, 1, row{mark: base, Base: base, Handed: base, Topic: [16]byte{1, 2, 3}}, ahead)
	at := base
	for range rapid.IntRange(0, 300).Draw(t, "steps") {
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			at += rapid.Int64Range(0, 3).Draw(t, "gap")
			p.push(&kgo.Record{Offset: at})
			at++
			p.pass()
		case 1:
			p.take()
		default:
			if p.top == p.mark {
				continue
			}
			o := p.mark + rapid.Int64Range(0, p.top-p.mark-1).Draw(t, "which")
			if sl := p.held(o, 1); sl != nil && rapid.Bool().Draw(t, "ends") {
				p.row.Settled.Delivered++
				p.end(sl)
			} else if sl != nil {
				sl.tries += rapid.Int32Range(1, 3).Draw(t, "tries")
			}
			p.committed = p.mark
		}
	}
	return p
}

// The worst that can be: every other record ended, every other failed, largest numbers.
func TestTheLargestRowFits(t *testing.T) {
	const mark = 1 << 62
	r := row{mark: mark, Base: 1, Settled: tidemill.Count{Delivered: mark, Skipped: mark, Dead: mark}, Void: math.MaxInt64, Lost: math.MaxInt64,
		Starts: math.MaxUint32, Handed: math.MaxInt64, End: math.MaxInt64, Topic: [16]byte{255}, By: math.MaxUint32, lineage: lineage{math.MaxInt64, math.MaxInt64, math.MaxInt64}}
	for o := int64(mark); o < mark+maxAhead; o += 3 {
		r.ahead = append(r.ahead, span{from: o + 1, to: o + 2})
		r.tries = append(r.tries, span{o, o + 1, int32(o)})
	}
	r.ahead[len(r.ahead)-1].to = mark + maxAhead
	text := r.text()
	if len(text) > maxMetadata || !strings.Contains(text, " bits=") || !strings.Contains(text, " tries=") {
		t.Fatalf("%d bytes: %.300q", len(text), text)
	}
}

func TestDamagedRowsAreRefused(t *testing.T) {
	good := row{mark: 5, Base: 0, Settled: tidemill.Count{Delivered: 6}, ahead: []span{{from: 6, to: 7}}}
	if _, _, err := parseRow(5, good.text()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a newer version":    "tidemill2 base=0",
		"an unknown number":  good.text() + " more=1",
		"no number":          strings.Replace(good.text(), "delivered=6", "delivered=six", 1),
		"a count too many":   strings.Replace(good.text(), "delivered=6", "delivered=7", 1),
		"runs cut off":       version + " delivered=5 runs=AQ",
		"runs too far":       version + " delivered=5 runs=/////w8",
		"bits that are none": version + " delivered=5 bits=!",
		"an id too short":    version + " delivered=5 topic=0102",
	} {
		if r, _, err := parseRow(5, text); err == nil {
			t.Errorf("%s: %q was read as %+v", name, text, r)
		}
	}
	if r, ours, err := parseRow(5, "somebody else's"); err != nil || ours || r.mark != 5 || r.Base != 5 {
		t.Errorf("another consumer's commit: %+v, %v, %v", r, ours, err)
	}
}

// What is missing, what is counted, and that the books add up afterwards.
func TestLosses(t *testing.T) {
	a, b := [16]byte{1}, [16]byte{2}
	// Of offsets 0 to 19, 0 to 9 have ended, 12 and 13 too; the log was seen to end at 20.
	at10 := row{mark: 10, Base: 0, Settled: tidemill.Count{Delivered: 12}, End: 20, Handed: 100, Topic: a, ahead: []span{{from: 12, to: 14}}}
	for name, c := range map[string]struct {
		x     extent
		lost  uint64
		mark  int64
		books tidemill.Books
	}{
		"nothing is missing":     {extent{0, 20, a, -1}, 0, 10, tidemill.Books{Accepted: 20, Settled: at10.Settled, Pending: 8}},
		"deleted what had ended": {extent{10, 25, a, -1}, 0, 10, tidemill.Books{Accepted: 25, Settled: at10.Settled, Pending: 13}},
		"deleted some unread":    {extent{13, 25, a, -1}, 2, 13, tidemill.Books{Accepted: 25, Settled: at10.Settled, Pending: 11, Lost: 2}},
		"deleted all unread":     {extent{25, 25, a, -1}, 13, 25, tidemill.Books{Accepted: 25, Settled: at10.Settled, Lost: 13}},
		"made anew":              {extent{0, 3, b, -1}, 8, 0, tidemill.Books{Accepted: 23, Settled: at10.Settled, Pending: 3, Lost: 8}},
		"made anew and longer":   {extent{0, 50, b, -1}, 8, 0, tidemill.Books{Accepted: 70, Settled: at10.Settled, Pending: 50, Lost: 8}},
		"went back":              {extent{0, 5, a, -1}, 8, 0, tidemill.Books{Accepted: 25, Settled: at10.Settled, Pending: 5, Lost: 8}},
		"cut off and went on":    {extent{0, 30, a, 7}, 8, 7, tidemill.Books{Accepted: 43, Settled: at10.Settled, Pending: 23, Lost: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			r := at10
			l, gone := r.missing(c.x)
			if l.Records != c.lost {
				t.Fatalf("lost %d (%s), want %d", l.Records, l.Cause, c.lost)
			}
			if gone {
				r.goOn(l, c.x)
			}
			if r.mark != c.mark {
				t.Fatalf("goes on at %d, want %d", r.mark, c.mark)
			}
			r.Topic = c.x.topic
			got, err := book(committed{r.mark, r.text()}, c.x)
			if err != nil || got != c.books || got.Off() != 0 {
				t.Fatalf("books are\n%+v (off by %d), %v; want\n%+v", got, got.Off(), err, c.books)
			}
		})
	}
}

// Every record is handed out once and in order, gaps are counted, the mark never passes
// what has not ended, and hand-outs never go further ahead than they may.
func TestAPartitionAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ahead = 20
		p := newPartition(0, 1, row{}, ahead)
		var log []bool // by offset: is a record
		ended := map[int64]bool{}
		var given []int64
		for range 200 {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				for range rapid.IntRange(0, 30).Draw(t, "gap") {
					log = append(log, false)
				}
				r := &kgo.Record{Offset: int64(len(log))}
				log = append(log, true)
				p.push(r)
				p.pass()
			case 1:
				for {
					if _, ok := p.take(); !ok {
						break
					}
					given = append(given, p.top-1)
					if p.top > p.committed+ahead {
						t.Fatalf("handed out %d, committed is %d", p.top-1, p.committed)
					}
				}
			case 2:
				if len(given) > 0 {
					o := rapid.SampledFrom(given).Draw(t, "which")
					if sl := p.held(o, 1); sl != nil {
						p.row.Settled.Delivered++
						p.end(sl)
						ended[o] = true
					}
				}
			case 3:
				p.committed = p.mark
			}
			for o := range p.mark {
				if log[o] && !ended[o] {
					t.Fatalf("the mark is %d, but %d has not ended", p.mark, o)
				}
			}
			if _, _, err := parseRow(p.mark, text(p)); err != nil {
				t.Fatal(err)
			}
		}
		for len(p.waiting) > 0 || p.out > 0 { // it never comes to rest with something left
			p.committed = p.mark
			for _, ok := p.take(); ok; _, ok = p.take() {
				given = append(given, p.top-1)
			}
			before := p.mark
			for o := p.mark; o < p.top; o++ {
				if sl := p.held(o, 1); sl != nil {
					p.row.Settled.Delivered++
					p.end(sl)
				}
			}
			if p.mark == before && p.out == 0 && len(p.waiting) > 0 {
				if _, ok := p.take(); !ok && p.committed == p.mark {
					t.Fatalf("stuck at %d", p.mark)
				}
				given = append(given, p.top-1)
			}
		}
		var want []int64
		for o, record := range log {
			if record {
				want = append(want, int64(o))
			}
		}
		if fmt.Sprint(given) != fmt.Sprint(want) {
			t.Fatalf("handed out %v, want %v", given, want)
		}
		if p.mark != int64(len(log)) || p.row.Void != uint64(len(log)-len(want)) {
			t.Fatalf("the mark is %d of %d, %d gaps", p.mark, len(log), p.row.Void)
		}
	})
}

func text(p *partition) string { r := p.state(false); return r.text() }
