package httpsink_test

import (
	"fmt"
	"math"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

// inUse is the memory that the process holds of the system for its heap and stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// However much a partner answers, memory grows by 16 MB at most.
func TestMemoryIsBounded(t *testing.T) {
	const most = 16 << 20
	for name, step := range map[string]func() partnertest.Step{
		"endless": partnertest.Endless, "10 GB": func() partnertest.Step { return partnertest.Huge(200) },
		"10 GB with 500": func() partnertest.Step { return partnertest.Huge(500) },
		"a gzip bomb":    partnertest.GzipBomb, "a header of 1 MB": partnertest.BigHeader, "very many 1xx": partnertest.Informing,
	} {
		t.Run(name, func(t *testing.T) {
			server := partnertest.New(t, ok)
			sink := open(t, server, httpsink.Options{Timeout: 10 * time.Second,
				Judge: func(a *httpsink.Answer) (httpsink.Verdict, bool) {
					if len(a.Body) > httpsink.MaxBody {
						t.Errorf("a body of %d bytes", len(a.Body))
					}
					return httpsink.Verdict{}, false
				}})
			_ = sink.Write(t.Context(), []*tidemill.Message{message("warm")})
			runtime.GC()
			before, peak := inUse(), int64(0)
			for range 10 {
				server.Script(step())
				began := time.Now()
				_ = sink.Write(t.Context(), []*tidemill.Message{message("1")})
				if took := time.Since(began); took > 5*time.Second { // none is read to its end, nor to the time-out's
					t.Errorf("it took %v", took)
				}
				peak = max(peak, inUse()-before)
			}
			if peak > most {
				t.Errorf("memory grew by %d MB", peak>>20)
			}
			t.Logf("memory grew by %d KB", peak>>10)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, " 2 ": 2 * time.Second, "1.5": 1500 * time.Millisecond, "-1": 0, "-0": 0,
		"soon": 0, "1s": 0, "1 2": 0, "NaN": 0, "Inf": time.Hour, "-Inf": 0, "1e9": time.Hour, "1000000000": time.Hour,
		"99999999999999999999999999": time.Hour, "1e400": time.Hour, "3600": time.Hour, "3601": time.Hour, "1e-12": 0,
		"Thu, 15 Jan 2026 10:00:30 GMT":    30 * time.Second,
		"Thursday, 15-Jan-26 10:00:30 GMT": 30 * time.Second,
		"Thu Jan 15 10:00:30 2026":         30 * time.Second,
		"Thu, 15 Jan 2026 09:00:00 GMT":    0,
		"Fri, 15 Jan 2106 10:00:00 GMT":    time.Hour,
		"Thu, 32 Jan 2026 10:00:00 GMT":    0,
		"Fri, 31 Dec 9999 23:59:59 GMT":    time.Hour,
		"Mon, 01 Jan 0001 00:00:00 GMT":    0,
	} {
		if got := httpsink.RetryAfter(value, now, time.Hour); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e9", "Thu, 15 Jan 2026 10:00:30 GMT", "0x1p3", "Inf", "1_0"} {
		f.Add(s, int64(1768471200), int64(time.Hour))
	}
	f.Fuzz(func(t *testing.T, value string, at, most int64) {
		if most < 0 || at > math.MaxInt32 || at < 0 {
			return
		}
		if got := httpsink.RetryAfter(value, time.Unix(at, 0), time.Duration(most)); got < 0 || got > time.Duration(most) {
			t.Errorf("%q: %v of at most %v", value, got, time.Duration(most))
		}
	})
}

func TestPackedAnswersAreUnpacked(t *testing.T) {
	server := partnertest.New(t, ok)
	server.Script(partnertest.Zipped(`{"status":"error"}`))
	var got string
	sink := open(t, server, httpsink.Options{Judge: func(a *httpsink.Answer) (httpsink.Verdict, bool) {
		got = fmt.Sprint(string(a.Body), a.Whole)
		return httpsink.Verdict{Kind: tidemill.Business, Why: "it says so"}, true
	}})
	r := kindOf(t, sink.Write(t.Context(), []*tidemill.Message{message("1")}), tidemill.Business)
	if got != `{"status":"error"}true` || string(r.Body) != `{"status":"error"}` || r.Status != http.StatusOK || r.Error() != "somebody: answered 200 OK: it says so" {
		t.Errorf("%s, %v, %s", got, r, r.Body)
	}
}
