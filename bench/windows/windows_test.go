package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/figures"
	"github.com/tidemill/tidemill/systems/windows/record"
)

func TestRecordsAreThoseOfTheirNamesAndEachIsAnother(t *testing.T) {
	seen, sizes, count := map[string]bool{}, map[record.Kind]int{}, map[record.Kind]int{}
	again := newRecords()
	for i, d := range newRecords().take(3000) {
		var r record.Record
		if err := record.Decode(d.kind, d.body, &r); err != nil {
			t.Fatal(err)
		}
		if got := string(r.AppendKey(nil)); got != d.key || seen[d.kind.String()+got] {
			t.Fatalf("record %d has key %q, it says %q; seen before: %t", i, got, d.key, seen[d.kind.String()+got])
		}
		if twin := again.next(); !bytes.Equal(twin.body, d.body) {
			t.Fatal("records are not the same for every contender")
		}
		if _, err := d.out(); err != nil {
			t.Fatal(err)
		}
		for f := range d.kind.Fields() {
			if !bytes.Contains(d.body, []byte(`"`+d.kind.Name(record.Field(f))+`":`)) {
				t.Fatalf("%s is not in %s", d.kind.Name(record.Field(f)), d.body)
			}
		}
		seen[d.kind.String()+d.key] = true
		sizes[d.kind] += len(d.body)
		count[d.kind]++
	}
	if n := sizes[record.Event] / count[record.Event]; n < 1000 || n > 1700 || count[record.Event] != 1000 {
		t.Errorf("%d events have %d bytes", count[record.Event], n)
	}
	if n := sizes[record.Mention] / count[record.Mention]; n < 350 || n > 500 {
		t.Errorf("mentions have %d bytes", n)
	}
}

func TestWhatIsNotTrueIsAProblem(t *testing.T) {
	for name, c := range map[string]struct {
		play    play
		told    report
		written int
		ok      bool
	}{
		"all are stored":             {play{what: "store", records: 10}, report{Stored: 10}, 0, true},
		"one is not stored":          {play{what: "store", records: 10}, report{Stored: 9}, 0, false},
		"all are delivered":          {play{what: "deliver", records: 10}, report{Delivered: 10}, 10, true},
		"one is not delivered":       {play{what: "deliver", records: 10}, report{Delivered: 9}, 10, false},
		"one was written twice":      {play{what: "deliver", records: 10}, report{Delivered: 10}, 11, false},
		"one was not written":        {play{what: "deliver", records: 10}, report{Delivered: 10}, 9, false},
		"one is left":                {play{what: "both", records: 10}, report{Delivered: 10, Stored: 1}, 10, false},
		"a transaction has its ends": {play{what: "deliver", records: 10, whole: true}, report{Delivered: 10}, 16, true},
		"a transaction has no end":   {play{what: "deliver", records: 10, whole: true}, report{Delivered: 10}, 10, false},
		"the books do not balance":   {play{what: "deliver", records: 10}, report{Delivered: 10, Failed: "off by one"}, 10, false},
	} {
		if err := judge(c.play, c.told, c.play.offsets(), c.written); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARowIsWhatCameInBetween(t *testing.T) {
	at := time.Unix(0, 0)
	r := &result{}
	r.fill(spent{at: at, own: time.Second, redis: time.Second, kafka: 0, done: 500}, spent{at: at.Add(2 * time.Second), own: 3 * time.Second, redis: 2 * time.Second, kafka: time.Second, rss: 7, done: 1500})
	if r.Records != 1000 || r.Seconds != 2 || r.Rate != 500 || r.Own != 2000 || r.Redis != 1000 || r.Kafka != 1000 || r.RSS != 7 {
		t.Errorf("it is %+v", r)
	}
}

func TestRatiosAreToTheFasterOfTheRound(t *testing.T) {
	m := measurement{name: "tidemill", limits: []string{"one", "many"}}
	r := &result{Name: "tidemill", Rate: 100, Own: 8}
	compare([]*result{{Name: "one", Rate: 200, Own: 12}, {Name: "many", Rate: 400, Own: 4}, {Name: "other", Rate: 900, Own: 1}}, m, r)
	if r.Limit != 0.25 || r.LimitCPU != 0.5 {
		t.Errorf("ratios are %+v", r)
	}
	if compare([]*result{r}, measurement{name: "one"}, r); r.Limit != 0.25 {
		t.Errorf("a limit is compared: %+v", r)
	}
}

func TestASummaryHasMediansAndEveryProblem(t *testing.T) {
	s := summary("x", []*result{{Round: 1, Rate: 1}, {Round: 2, Rate: 9}, {Round: 3, Rate: 2, Problem: "one is left"}})
	if s.Rate != 2 || !strings.Contains(s.Problem, "round 3: one is left") {
		t.Errorf("summary is %+v", s)
	}
	var b bytes.Buffer
	if figures.JSON(&b, s); !json.Valid(b.Bytes()) || !strings.Contains(s.line(), "PROBLEM") {
		t.Errorf("it is shown as %s and %s", b.Bytes(), s.line())
	}
}

func TestOnlyWhatIsAppliedCounts(t *testing.T) {
	c := newCounter(3)
	c.add([]tidemill.Settlement{{Fate: tidemill.Delivered, Outcome: tidemill.Applied}, {Fate: tidemill.Delivered, Outcome: tidemill.Stale}})
	select {
	case <-c.all:
		t.Fatal("one is taken for three")
	default:
	}
	c.add([]tidemill.Settlement{{Records: tidemill.Count{Delivered: 2}, Outcome: tidemill.Applied}})
	select {
	case <-c.all:
	default:
		t.Fatal("three are not noticed")
	}
}
