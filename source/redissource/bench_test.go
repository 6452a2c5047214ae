package redissource

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// fill puts n entries of 300 bytes into a stream: as the Intake does, or as producers with
// one field do, or flat with 28 fields.
func fill(b *testing.B, client rueidis.Client, stream, form string, n int) {
	b.Helper()
	payload := make([]byte, 300)
	for i := range payload {
		payload[i] = byte('a' + i%26)
	}
	const each = 2000
	for from := 0; from < n; from += each {
		m := min(each, n-from)
		if form == "intake" {
			jobs := make([]*tidemill.Message, m)
			for i := range jobs {
				jobs[i] = &tidemill.Message{ID: fmt.Sprint(from + i), Tenant: "33333333-3333-4333-8333-333333333333", To: stream, Type: "$pageview",
					Key: []byte("distinct"), Payload: payload, Time: time.UnixMilli(1_700_000_000_000)}
			}
			if err := NewIntake(client, IntakeOptions{}).Add(b.Context(), jobs, make([]queue.Added, m)); err != nil {
				b.Fatal(err)
			}
			continue
		}
		cmds := make(rueidis.Commands, m)
		for i := range cmds {
			add := client.B().Xadd().Key(stream).Id("*").FieldValue()
			if form == "json" {
				cmds[i] = add.FieldValue("data", string(payload)).Build()
				continue
			}
			for f := range 28 {
				add = add.FieldValue(fmt.Sprintf("field_%d", f), string(payload[:10]))
			}
			cmds[i] = add.Build()
		}
		for _, r := range client.DoMulti(b.Context(), cmds...) {
			if err := r.Error(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// costs measures what a benchmark costs: beside the time, which depends on who else uses
// the machine, the processor time of both sides.
func costs(b *testing.B, client rueidis.Client) (report func()) {
	used := func() (here, there float64) {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		info, err := client.Do(b.Context(), client.B().Info().Section("cpu").Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(info) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "used_cpu_sys" || name == "used_cpu_user" {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					b.Fatal(err)
				}
				there += v
			}
		}
		return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9, there
	}
	here, there := used()
	return func() {
		b.StopTimer()
		h, t := used()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		b.ReportMetric((h-here)*1e6/float64(b.N), "client-µs/op")
		b.ReportMetric((t-there)*1e6/float64(b.N), "server-µs/op")
	}
}

// BenchmarkDrain reads and settles a stream, a thousand at a time; a settlement runs beside the
// next read, as in the engine.
func BenchmarkDrain(b *testing.B) {
	for _, form := range []string{"intake", "json", "flat"} {
		b.Run(form, func(b *testing.B) {
			client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
			stream := testenv.Name("bench")
			defer client.Do(b.Context(), client.B().Del().Key(stream).Build())
			fill(b, client, stream, form, b.N)
			s, err := New(client, Options{Stream: stream, Consumer: "c"})
			if err != nil {
				b.Fatal(err)
			}
			const most = 1000
			sets := make(chan []*tidemill.Message, 4)
			for range cap(sets) {
				set := make([]*tidemill.Message, most)
				for i := range set {
					set[i] = new(tidemill.Message)
				}
				sets <- set
			}
			full := make(chan []*tidemill.Message, cap(sets))
			settled := make(chan error, 1)
			report := costs(b, client)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				ends := make([]tidemill.Settlement, most)
				for set := range full {
					for i, m := range set {
						ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
					}
					if err := s.Settle(b.Context(), ends[:len(set)]); err != nil {
						settled <- err
						return
					}
					for i := range set {
						if ends[i].Outcome != tidemill.Applied {
							settled <- fmt.Errorf("%s was taken as %v", set[i].ID, ends[i].Outcome)
							return
						}
					}
					sets <- set[:most]
				}
				settled <- nil
			}()
			for n := 0; n < b.N; {
				set := <-sets
				got, err := s.Receive(b.Context(), set)
				if err != nil {
					b.Fatal(err)
				}
				n += got
				full <- set[:got]
			}
			close(full)
			if err := <-settled; err != nil {
				b.Fatal(err)
			}
			report()
		})
	}
}

// BenchmarkReceiveSettle reads and settles a stream a thousand at a time, one after the
// other: by marks, or as a bridge does, which leaves each entry until an ack comes for it.
func BenchmarkReceiveSettle(b *testing.B) {
	for _, how := range []string{"marks", "acks"} {
		b.Run(how, func(b *testing.B) {
			client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
			stream := testenv.Name("bench")
			fill(b, client, stream, "json", b.N)
			s, err := New(client, Options{Stream: stream, Consumer: "c"})
			if err != nil {
				b.Fatal(err)
			}
			into, ends := make([]*tidemill.Message, 1000), make([]tidemill.Settlement, 1000)
			for i := range into {
				into[i] = new(tidemill.Message)
			}
			report := costs(b, client)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; {
				got, err := s.Receive(b.Context(), into)
				if err != nil {
					b.Fatal(err)
				}
				for i, m := range into[:got] {
					ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}
					if how == "acks" {
						ends[i].End = tidemill.Left
					}
				}
				err = s.Settle(b.Context(), ends[:got])
				if how == "acks" && err == nil {
					for i, m := range into[:got] {
						ends[i] = tidemill.Settlement{ID: m.ID, Fate: tidemill.Delivered}
					}
					err = s.Settle(b.Context(), ends[:got])
				}
				if err != nil {
					b.Fatal(err)
				}
				n += got
			}
			report()
		})
	}
}

// BenchmarkBare does the same with nothing but the client: XREADGROUP, XACK, XDEL.
func BenchmarkBare(b *testing.B) {
	for _, form := range []string{"intake", "json", "flat"} {
		b.Run(form, func(b *testing.B) {
			client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
			stream := testenv.Name("bench")
			defer client.Do(b.Context(), client.B().Del().Key(stream).Build())
			fill(b, client, stream, form, b.N)
			if err := client.Do(b.Context(), client.B().XgroupCreate().Key(stream).Group("g").Id("0").Build()).Error(); err != nil {
				b.Fatal(err)
			}
			full := make(chan []string, 4)
			settled := make(chan error, 1)
			report := costs(b, client)
			b.ReportAllocs()
			b.ResetTimer()
			go func() {
				for ids := range full {
					for _, r := range client.DoMulti(b.Context(),
						client.B().Xack().Key(stream).Group("g").Id(ids...).Build(), client.B().Xdel().Key(stream).Id(ids...).Build()) {
						if err := r.Error(); err != nil {
							settled <- err
							return
						}
					}
				}
				settled <- nil
			}()
			for n := 0; n < b.N; {
				var got batch
				err := got.parseRead(client.Do(b.Context(), client.B().Xreadgroup().Group("g", "c").Count(1000).Streams().Key(stream).Id(">").Build()))
				if err != nil {
					b.Fatal(err)
				}
				ids := make([]string, len(got.entries))
				for i := range got.entries {
					ids[i] = got.entries[i].id
				}
				n += len(ids)
				full <- ids
			}
			close(full)
			if err := <-settled; err != nil {
				b.Fatal(err)
			}
			report()
		})
	}
}

// BenchmarkAdd brings in new messages, a hundred a call.
func BenchmarkAdd(b *testing.B) {
	client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis).URL)
	report := costs(b, client)
	b.ReportAllocs()
	fill(b, client, testenv.Name("bench"), "intake", b.N)
	report()
}
