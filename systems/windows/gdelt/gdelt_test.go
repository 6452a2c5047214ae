package gdelt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
	"github.com/tidemill/tidemill/systems/windows/record"
)

func TestRows(t *testing.T) { synctest.Test(t, rows) }

func rows(t *testing.T) {
	event := func(cells map[int]string) string {
		all := make([]string, 61)
		for i, c := range cells {
			all[i] = c
		}
		return strings.Join(all, "\t")
	}
	w := newWorld(t, gdelt.Options{Quiet: -1, Header: "run"})
	w.put("20250323151500.export.CSV", "\ufeff"+event(map[int]string{0: " 1 ", 1: "20250323", 3: "x", 4: "2025.20", 5: "A\"B", 26: "043", 30: "+2.80", 34: "-.5", 40: "007.10", 41: "1e+5", 48: "NaN", 59: "20250323151500", 60: " https://example.com/ä "})+"\r\n"+
		"\n \t \n"+event(map[int]string{1: "20250323"})+"\n"+
		"no id\t1\n9223372036854775808\t1\n2\n"+event(map[int]string{0: "3", 6: "\xff\x01"})+"\tmore\tcolumns")
	got := w.take(10, time.Second)
	if want := "20250323151500.export.CSV:1 20250323151500.export.CSV:7 20250323151500.export.CSV:8"; ids(got) != want {
		t.Fatalf("rows are %s, want %s", ids(got), want)
	}
	m := got[0]
	if m.Type != "event" || string(m.Key) != "1" || string(m.Get("run")) != "20250323151500" || !m.Time.Equal(time.Date(2025, 3, 23, 15, 15, 0, 0, time.UTC)) || m.To != "20250323151500.export.CSV" || m.Handed != 1 {
		t.Errorf("the first is %+v", m)
	}
	var r record.Record
	for _, m := range got {
		if err := record.Decode(record.Event, m.Payload, &r); err != nil {
			t.Fatalf("%s: %v", m.Payload, err)
		}
	}
	if err := record.Decode(record.Event, m.Payload, &r); err != nil {
		t.Fatal(err)
	}
	for f, want := range map[record.Field]string{record.GlobalEventID: "1", record.Day: "20250323", record.MonthYear: "", record.Year: "", record.FractionDate: "2025.20",
		record.Actor1Code: `"A\"B"`, record.EventCode: `"043"`, record.GoldsteinScale: "2.80", record.AvgTone: "-0.5", record.Actor1GeoLat: "7.10", record.Actor1GeoLong: "1e+5", record.Actor2GeoLat: "",
		record.DateAdded: "20250323151500", record.SourceURL: `"https://example.com/ä"`} {
		if got := string(r.Value(f)); got != want {
			t.Errorf("%s is %s, want %s", record.Event.Name(f), got, want)
		}
	}
	if !bytes.Contains(got[2].Payload, []byte("\"actor1Name\":\"\ufffd\"")) {
		t.Errorf("what is no UTF-8 became %s", got[2].Payload)
	}
	var all map[string]any
	if err := json.Unmarshal(got[1].Payload, &all); err != nil || len(all) != 61 {
		t.Errorf("a row of one cell has %d names, %v", len(all), err)
	}
	totals, err := w.Totals(t.Context())
	if err != nil || totals.Accepted != 3 || totals.Idless != 3 {
		t.Errorf("totals are %+v, %v", totals, err)
	}
}

func TestPairsOfFiles(t *testing.T) { synctest.Test(t, pairsOfFiles) }

func pairsOfFiles(t *testing.T) {
	b := gdelttest.Batch{Stamp: "20250323151500", Events: 50, Mentions: 120}
	for _, zipped := range []bool{false, true} {
		w := newWorld(t, gdelt.Options{Quiet: -1})
		names, err := b.Write(w.dir, zipped)
		if err != nil || len(names) != 2 {
			t.Fatal(names, err)
		}
		got := w.take(1000, time.Second)
		kinds, keys := map[string]int{}, map[string]bool{}
		var r record.Record
		for _, m := range got {
			kinds[m.Type]++
			kind, err := record.ParseKind(m.Type)
			if err == nil {
				err = record.Decode(kind, m.Payload, &r)
			}
			id, batchErr := record.BatchID(m.Header, "")
			if err != nil || batchErr != nil || id != b.Stamp || string(m.Key) != fmt.Sprint(r.ID) {
				t.Fatalf("%s: %v, %v, batch %q, key %s", m.ID, err, batchErr, id, m.Key)
			}
			if out := r.AppendOut(nil); bytes.Contains(out, []byte(`Date":null`)) || !json.Valid(out) {
				t.Errorf("%s goes out as %s", m.ID, out)
			}
			keys[m.Type+string(r.AppendQualifiedKey(nil))] = true
		}
		if kinds["event"] != 50 || kinds["mention"] != 120 || len(keys) != 170 {
			t.Errorf("%v, %d keys", kinds, len(keys))
		}
	}
}

func TestOtherFilesAreLeftAlone(t *testing.T) { synctest.Test(t, otherFilesAreLeftAlone) }

func otherFilesAreLeftAlone(t *testing.T) {
	w := newWorld(t, gdelt.Options{Quiet: -1, Since: "20250101000000"})
	row := "1\t\n"
	for _, name := range []string{".hidden.export.CSV", "20250323151500.export.CSV.part", "20250323151500.gkg.csv.zip", "readme.txt", "20240323151500.export.CSV", "export.CSV"} {
		w.put(name, row)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "20250323151500.mentions.CSV"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.put("20250323151500.translation.mentions.csv", row)
	got := w.take(10, time.Second)
	if ids(got) != "20250323151500.translation.mentions.csv:1" || got[0].Type != "mention" || len(w.letters()) != 0 {
		t.Errorf("received %s, letters %v", ids(got), w.letters())
	}
}

// A file that is written slowly is read when it has been quiet for a while.
func TestAGrowingFileIsReadWhenComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gdelt.Options{Quiet: 10 * time.Second, Every: time.Second})
		path := filepath.Join(w.dir, "20250323151500.export.CSV")
		start := time.Now()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		got := make(chan []*tidemill.Message)
		go func() { got <- w.take(1, time.Hour) }()
		const writes = 20
		for i := range writes {
			time.Sleep(5*time.Second + time.Millisecond)
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = fmt.Fprintf(f, "%d\t20250323\n", i)
			}
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
			// The clock of the file system is not the one of the test.
			if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if ms := <-got; len(ms) != 1 {
			t.Fatalf("received %s", ids(ms))
		}
		if took, want := time.Since(start), writes*5*time.Second+10*time.Second; took < want || took > want+2*time.Second {
			t.Errorf("it was read after %v, want %v", took, want)
		}
		if r := w.Reading(); len(r) != 1 || r[0].Rows != writes || r[0].Out != 1 || r[0].Pending != writes {
			t.Errorf("reading %+v", r)
		}
	})
}

func TestADoneFileIsRemovedIfAsked(t *testing.T) { synctest.Test(t, aDoneFileIsRemovedIfAsked) }

func aDoneFileIsRemovedIfAsked(t *testing.T) {
	for _, remove := range []bool{false, true} {
		w := newWorld(t, gdelt.Options{Quiet: -1, Remove: remove})
		w.put("20250323151500.export.CSV", "1\t\n")
		w.settle(tidemill.Delivered, w.take(1, time.Second)...)
		w.take(1, 50*time.Millisecond)
		_, err := os.Stat(filepath.Join(w.dir, "20250323151500.export.CSV"))
		if gone := errors.Is(err, os.ErrNotExist); gone != remove {
			t.Errorf("remove %v: %v", remove, err)
		}
		w.start()
		if got := w.take(1, 50*time.Millisecond); len(got) != 0 {
			t.Errorf("it is read again: %s", ids(got))
		}
	}
}

// More files than the backlog holds are read one after the other, oldest first, without
// waiting for the next look.
func TestABacklogIsReadInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gdelt.Options{Quiet: -1, Backlog: 4, Every: time.Hour})
		var want []string
		for i := range 50 {
			name := fmt.Sprintf("2025032315%04d.export.CSV", i)
			w.put(name, fmt.Sprintf("%d\t\n", i))
			want = append(want, name+":1")
		}
		w.put("20240101000000.export.CSV.zip", "broken")
		var got []string
		start := time.Now()
		for range 50 {
			ms := w.take(1, time.Minute)
			if len(ms) != 1 {
				t.Fatalf("after %d there is nothing more", len(got))
			}
			got = append(got, ms[0].ID)
			w.settle(tidemill.Delivered, ms...)
		}
		if !slices.Equal(got, want) || time.Since(start) > 0 {
			t.Errorf("after %v: %v", time.Since(start), got)
		}
		if n := len(w.Reading()); n != 0 {
			t.Errorf("%d files are open", n)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	dead, files := letters(t), tableprogress.Memory(tableprogress.Options{})
	for name, err := range map[string]error{
		"no folder":       second(gdelt.NewFolder("", files, dead, gdelt.Options{})),
		"no progress":     second(gdelt.NewFolder("x", nil, dead, gdelt.Options{})),
		"no letters":      second(gdelt.NewFolder("x", files, nil, gdelt.Options{})),
		"a negative time": second(gdelt.NewFolder("x", files, dead, gdelt.Options{Every: -1})),
		"no guard":        second(gdelt.NewURL("http://example.com/list", "spool", nil, files, dead, gdelt.Options{})),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }
