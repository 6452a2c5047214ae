package windows

import (
	"bytes"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/rounds"
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
	r.fill(spent{process.Look{At: at, Own: time.Second, Servers: map[string]time.Duration{"redis": time.Second}}, 500}, spent{process.Look{At: at.Add(2 * time.Second), Own: 3 * time.Second, Servers: map[string]time.Duration{"redis": 2 * time.Second, "kafka": time.Second}, RSS: 7}, 1500})
	if r.Records != 1000 || r.Seconds != 2 || r.Rate != 500 || r.Own != 2000 || r.Redis != 1000 || r.Kafka != 1000 || r.RSS != 7 {
		t.Errorf("it is %+v", r)
	}
}

func row(name string, rate, cpu float64) *result {
	return &result{Common: rounds.Common{Name: name}, Rate: rate, Own: cpu}
}

func TestRatiosAreToTheFasterOfTheRound(t *testing.T) {
	limits := []string{"one", "many"}
	r := row("tidemill", 100, 8)
	compare([]*result{row("one", 200, 12), row("many", 400, 4), row("other", 900, 1)}, limits, r)
	if r.Limit != 0.25 || r.LimitCPU != 0.5 {
		t.Errorf("ratios are %+v", r)
	}
	if compare([]*result{r}, nil, r); r.Limit != 0.25 {
		t.Errorf("a limit is compared: %+v", r)
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
