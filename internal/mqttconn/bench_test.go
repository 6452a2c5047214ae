//go:build unix

package mqttconn

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/testenv"
)

// wide is Mosquitto as it should be set up for a bridge.
const wide = "MOSQUITTO_SETTINGS=max_inflight_messages 0"

func BenchmarkPublish(b *testing.B) {
	for _, c := range []struct {
		name, settings string
		version, qos   byte
		lanes          int
	}{
		{"nodelay/5/qos1", wide, 5, 1, 4},
		{"nodelay/5/qos1/onelane", wide, 5, 1, 1},
		{"nodelay/3/qos1", wide, 4, 1, 4},
		{"nodelay/5/qos2", wide, 5, 2, 4},
		{"nodelay/5/qos0", wide, 5, 0, 4},
		{"stock/5/qos1", stock, 5, 1, 4},
		{"stock/3/qos1", stock, 4, 1, 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := testenv.Start(b, testenv.PrivateMosquitto, c.settings)
			cl, err := Open(b.Context(), []string{s.URL}, Options{ClientID: testenv.Name("b"), Version: c.version})
			if err != nil {
				b.Fatal(err)
			}
			defer cl.Close(b.Context())
			payload := bytes.Repeat([]byte("x"), 300)
			before := cpu()
			var left atomic.Int64
			b.ReportAllocs()
			n := 0
			for range b.N {
				n++
			}
			left.Store(int64(n))
			b.ResetTimer()
			start := time.Now()
			var lanes sync.WaitGroup
			for range c.lanes {
				lanes.Go(func() {
					msgs := make([]Message, 1000)
					for i := range msgs {
						msgs[i] = Message{Topic: "dev/telemetry", Payload: payload, QoS: c.qos}
					}
					for {
						k := min(int(left.Add(-1000))+1000, 1000)
						if k <= 0 {
							return
						}
						if err := cl.Publish(b.Context(), msgs[:k]); err != nil {
							b.Error(err)
						}
					}
				})
			}
			lanes.Wait()
			b.StopTimer()
			b.ReportMetric(float64(n)/time.Since(start).Seconds(), "msg/s")
			b.ReportMetric(float64((cpu()-before).Nanoseconds())/1e3/float64(n), "cpu-µs/msg")
			st := cl.Stats()
			b.ReportMetric(float64(n)/float64(st.Writes), "msg/write")
			b.ReportMetric(float64(n)/float64(st.Reads), "msg/read")
			b.ReportMetric(float64(st.Quickacks), "quickacks")
		})
	}
}

func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
