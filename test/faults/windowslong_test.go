//go:build servers

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
)

var windowsLongFlag = flag.Int("windowslong", 20_000, "how many records TestWindowsOneLargeBatch… tests put into one window")

// windowsMemory is how much memory a process may use, whatever the size of its windows.
const windowsMemory = 300 << 20

// TestWindowsOneLargeBatch has one window that is larger than the allowed memory: -windowslong
// 1000000 takes some minutes.
func TestWindowsOneLargeBatch(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) { w.oneLarge() })
}

// TestWindowsOneLargeBatchOfFiles does so on SQLite, with a file.
func TestWindowsOneLargeBatchOfFiles(t *testing.T) {
	t.Parallel()
	windowsRounds(t, nil, func(w *windowsWorld) { w.oneLarge() })
}

func (w *windowsWorld) oneLarge() {
	n := *windowsLongFlag
	within := afterWindows + time.Duration(n)*time.Millisecond // nothing is slower than 1,000 a second
	for _, name := range []string{"TIDEMILL_WINDOWS_PAGE", "TIDEMILL_WINDOWS_STORE"} {
		delete(w.env, name)
	}
	w.set("TIDEMILL_WINDOWS_WINDOW", "24h", "TIDEMILL_WINDOWS_LEASE", "10s")
	in := w.run(1)[0]
	began := time.Now()
	batch := gdelttest.Batch{Stamp: w.day + "000000", Events: n}
	if len(w.brokers) == 0 {
		if _, err := batch.Write(w.folder(), false); err != nil {
			w.Fatal(err)
		}
	} else {
		w.pour(n)
	}
	w.sent["event"] = n
	w.stored(within)
	stored, before := time.Since(began), in.PID()
	w.Logf("%d records are in one window after %v; the process has taken %d MB", n, stored.Round(time.Millisecond), w.memory(in.PID())>>20)
	if st := w.status(); st.States["active"].Windows != 1 || st.States["active"].Records != int64(n) {
		w.Fatalf("not all records are in one window: %+v", st)
	}
	began = time.Now()
	w.must(http.MethodPost, "windows/"+batch.Stamp+"/close")
	w.until(within, "the window is delivered", func() bool { return w.status().States["leased"].Windows+w.status().States["ready"].Windows == 0 })
	w.Logf("delivered after %v", time.Since(began).Round(time.Millisecond))
	a := w.quiet(within)
	w.Logf("in the index after %v", time.Since(began).Round(time.Millisecond))
	if b := booksOf(a, windows.Delivered); !a.Balanced || b.Delivered != uint64(n) || booksOf(a, "windows-index-events").Delivered != uint64(n) {
		w.Errorf("the books say %+v", a)
	}
	if len(w.brokers) > 0 {
		w.countTopic(n)
		w.askIndex(http.MethodPost, "/"+w.indexOf("event")+"/_refresh", "", nil)
		var said struct{ Count int }
		w.askIndex(http.MethodGet, "/"+w.indexOf("event")+"/_count", "", &said)
		if said.Count != n {
			w.Errorf("the index has %d documents, want %d", said.Count, n)
		}
	} else {
		for _, id := range []int{0, 1, n / 2, n - 1} {
			var said struct{ Total int }
			b := w.must(http.MethodGet, fmt.Sprintf("search?family=events&q=globalEventId:%d", 1_200_000_000+id))
			if err := json.Unmarshal(b, &said); err != nil || said.Total != 1 {
				w.Errorf("event %d is found %d times (%v)", id, said.Total, err)
			}
		}
	}
	if in.PID() != before {
		w.Error("the process has ended meanwhile")
	}
	most := w.memory(in.PID())
	w.Logf("the process has taken %d MB at the most", most>>20)
	if most > windowsMemory {
		w.Errorf("the process has taken %d MB, at most %d it may", most>>20, windowsMemory>>20)
	}
}

// memory is the highest memory of a process so far.
func (w *windowsWorld) memory(pid int) int64 {
	w.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		w.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				w.Fatal(err)
			}
			return n << 10
		}
	}
	w.Fatal("the system does not say how much memory a process has taken")
	return 0
}

// pour writes events of one batch to their topic: some rows, again and again with another id.
func (w *windowsWorld) pour(n int) {
	w.Helper()
	var bodies [][]byte
	for _, i := range w.rows(gdelttest.Batch{Stamp: w.day + "000000", Events: min(n, 1000)}) {
		bodies = append(bodies, i.body(1))
	}
	client := w.kafkaClient(kgo.ProducerLinger(10*time.Millisecond), kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	batch := []byte(w.day + "000000")
	failed := make(chan error, 1)
	for k := range n {
		id := strconv.Itoa(1_200_000_000 + k)
		body := bodies[k%len(bodies)]
		body = append([]byte(`{"globalEventId":`+id), body[bytes.IndexByte(body, ','):]...)
		client.Produce(w.Context(), &kgo.Record{Topic: w.topics["in-event"], Key: []byte(id), Value: body, Headers: []kgo.RecordHeader{{Key: "X-Batch-ID", Value: batch}}},
			func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
	}
	err := client.Flush(w.Context())
	select {
	case err = <-failed:
	default:
	}
	if err != nil {
		w.Fatal(err)
	}
}

// countTopic checks that each event is on its topic once.
func (w *windowsWorld) countTopic(n int) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Minute)
	defer cancel()
	topic := w.topics["out-event"]
	c := w.kafkaClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		w.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	times := make([]uint8, n)
	for left > 0 {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			w.Fatalf("%d records are left: %v", left, err)
		}
		f.EachRecord(func(r *kgo.Record) {
			left--
			id, err := strconv.Atoi(string(r.Key))
			if err != nil || id < 1_200_000_000 || id >= 1_200_000_000+n {
				w.Errorf("%q is on the topic", r.Key)
				return
			}
			times[id-1_200_000_000]++
		})
	}
	missing, twice := 0, 0
	for _, k := range times {
		switch {
		case k == 0:
			missing++
		case k > 1:
			twice++
		}
	}
	if missing+twice > 0 {
		w.Errorf("of %d events %d are not on the topic, and %d are there more than once", n, missing, twice)
	}
}
