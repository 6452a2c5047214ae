package rediswindow

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
)

// serverCPU is the processor time that Redis has used.
func serverCPU(b *testing.B, client rueidis.Client) time.Duration {
	b.Helper()
	info, err := client.Do(b.Context(), client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	var total float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			total += v
		}
	}
	return time.Duration(total * float64(time.Second))
}

const pollRecords = 2000

// settings of a Redis that shows what the work costs, not what the disk does.
const settings = "REDIS_SETTINGS=--appendonly no"

// poll is a poll's worth of records of one batch id, with ids that no other poll has and bodies
// as events have: 61 values, most of them short and many null.
func poll(batch string, n int) []window.Record {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	rs := make([]window.Record, pollRecords)
	for i := range rs {
		id := 1_000_000_000 + n*pollRecords + i
		b := fmt.Appendf(nil, `{"globalEventId":%d,"day":20250323,"monthYear":202503,"year":2025,"fractionDate":2025.2247`, id)
		for _, actor := range []string{"actor1", "actor2"} {
			for _, name := range []string{"Code", "Name", "CountryCode", "KnownGroupCode", "EthnicCode", "Religion1Code", "Religion2Code", "Type1Code", "Type2Code", "Type3Code"} {
				if b = fmt.Appendf(b, `,"%s%s":`, actor, name); rng.IntN(3) > 0 {
					b = append(b, "null"...)
				} else {
					b = fmt.Appendf(b, `"%c%c%c"`, 'A'+rng.IntN(26), 'A'+rng.IntN(26), 'A'+rng.IntN(26))
				}
			}
		}
		b = fmt.Appendf(b, `,"isRootEvent":%d,"eventCode":"%03d","quadClass":%d,"goldsteinScale":%.1f,"numMentions":%d,"avgTone":%.14f`,
			rng.IntN(2), rng.IntN(200), 1+rng.IntN(4), rng.Float64()*20-10, rng.IntN(20), rng.Float64()*20-10)
		for _, geo := range []string{"actor1Geo", "actor2Geo", "actionGeo"} {
			b = fmt.Appendf(b, `,"%sType":%d,"%sFullName":"Place %d, Country","%sLat":%.4f,"%sLong":%.4f,"%sFeatureId":"%d"`,
				geo, rng.IntN(5), geo, rng.IntN(5000), geo, rng.Float64()*180-90, geo, rng.Float64()*360-180, geo, rng.IntN(1_000_000))
		}
		b = fmt.Appendf(b, `,"dateAdded":20250323151500,"sourceUrl":"https://news.example/%x/%d-a-title-of-some-words.html"}`, rng.Uint64(), rng.IntN(100_000))
		rs[i] = window.Record{Batch: batch, Kind: "event", ID: strconv.Itoa(id), Body: b}
	}
	return rs
}

// Storing records, beside a pipeline of one HSET for each: server and wall time of a record.
func BenchmarkPut(b *testing.B) {
	polls := make([][]window.Record, 50)
	for i := range polls {
		polls[i] = poll("20250323151500", i)
	}
	run := func(b *testing.B, client rueidis.Client, round func(n int, rs []window.Record) error) {
		b.Helper()
		before, n := serverCPU(b, client), 0
		for b.Loop() {
			if n%len(polls) == 0 {
				b.StopTimer()
				if err := client.Do(b.Context(), client.B().Flushall().Build()).Error(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			if err := round(n, polls[n%len(polls)]); err != nil {
				b.Fatal(err)
			}
			n++
		}
		b.ReportMetric(float64(serverCPU(b, client)-before)/float64(n*pollRecords), "server-ns/record")
		b.ReportMetric(float64(b.Elapsed())/float64(n*pollRecords), "wall-ns/record")
	}
	b.Run("hset", func(b *testing.B) {
		client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis, settings).URL)
		run(b, client, func(n int, rs []window.Record) error {
			cmds := make(rueidis.Commands, len(rs))
			for i := range rs {
				cmds[i] = client.B().Hset().Key("batch:"+rs[i].Batch).FieldValue().FieldValue(rs[i].ID, rueidis.BinaryString(rs[i].Body)).Build()
			}
			for _, r := range client.DoMulti(b.Context(), cmds...) {
				if err := r.Error(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis, settings).URL)
			kept, s := make([]window.Kept, pollRecords), open(b, client)
			run(b, client, func(n int, rs []window.Record) error {
				if n%len(polls) == 0 { // all is gone
					s = open(b, client)
				}
				return s.Put(b.Context(), rs, kept)
			})
		})
	}
}

// stores are this package's, and the one that stands on the table.
var stores = map[string]func(*testing.B, rueidis.Client) window.Store{
	"own": func(b *testing.B, client rueidis.Client) window.Store {
		b.Helper()
		s, err := New(client, Options{})
		if err != nil {
			b.Fatal(err)
		}
		return s
	},
	"table": func(b *testing.B, client rueidis.Client) window.Store {
		b.Helper()
		rows, err := redistable.New(b.Context(), client, tablewindow.Spec(), redistable.Options{Group: "windows"})
		if err != nil {
			b.Fatal(err)
		}
		blobs, err := redistable.New(b.Context(), client, tablewindow.BlobSpec(), redistable.Options{Group: "windows"})
		if err != nil {
			b.Fatal(err)
		}
		s, err := tablewindow.New(b.Context(), rows, blobs, tablewindow.Options{Look: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		return s
	},
}

// Instances that put at the same time, each polls of its own: into windows of their own, or into one.
func BenchmarkPutTogether(b *testing.B) {
	const instances = 4
	for _, size := range []int{20, 500} {
		for _, one := range []bool{false, true} {
			for name, open := range stores {
				b.Run(fmt.Sprintf("records=%d/one=%t/%s", size, one, name), func(b *testing.B) {
					client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis, settings).URL)
					all := make([]window.Store, instances)
					for i := range all {
						all[i] = open(b, client)
					}
					before, n := serverCPU(b, client), 0
					for b.Loop() {
						b.StopTimer()
						polls := make([][]window.Record, instances)
						for i := range polls {
							batch := "b"
							if !one {
								batch += fmt.Sprint(i)
							}
							polls[i] = poll(batch, n*instances+i)[:size]
						}
						b.StartTimer()
						var group sync.WaitGroup
						for i, s := range all {
							group.Go(func() {
								if err := s.Put(b.Context(), polls[i], make([]window.Kept, size)); err != nil {
									b.Error(err)
								}
							})
						}
						group.Wait()
						n++
					}
					b.ReportMetric(float64(serverCPU(b, client)-before)/float64(n*instances*size), "server-ns/record")
					b.ReportMetric(float64(b.Elapsed())/float64(n*instances*size), "wall-ns/record")
				})
			}
		}
	}
}

// The life of a window of 100,000 records after it was closed: read in pages, and settled.
func BenchmarkLife(b *testing.B) {
	for name, open := range stores {
		b.Run(name, func(b *testing.B) {
			client := redistest.Connect(b, testenv.Start(b, testenv.PrivateRedis, settings).URL)
			life(b, client, open(b, client))
		})
	}
}

func life(b *testing.B, client rueidis.Client, s window.Store) {
	b.Helper()
	source, m := s.Open(), new(tidemill.Message)
	page := make([]window.Record, 1000)
	server := time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		for i := range 50 {
			if err := s.Put(b.Context(), poll("b", i), nil); err != nil {
				b.Fatal(err)
			}
		}
		before := serverCPU(b, client)
		b.StartTimer()
		if _, err := s.CloseNow(b.Context(), "b"); err != nil {
			b.Fatal(err)
		}
		if n, err := source.Receive(b.Context(), []*tidemill.Message{m}); n != 1 || err != nil {
			b.Fatal(n, err)
		}
		read := 0
		for from, first := "", true; first || from != ""; first = false {
			p, err := s.Page(b.Context(), m.Mark, from, page)
			if err != nil {
				b.Fatal(err)
			}
			read, from = read+p.N, p.Next
		}
		end := []tidemill.Settlement{{ID: m.ID, Mark: m.Mark, Fate: tidemill.Delivered}}
		if err := source.Settle(b.Context(), end); err != nil || end[0].Outcome != tidemill.Applied || read != 50*pollRecords {
			b.Fatal(err, end[0].Outcome, fmt.Sprint("read ", read))
		}
		server += serverCPU(b, client) - before
	}
	b.ReportMetric(float64(server)/float64(b.N)/50/pollRecords, "server-ns/record")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/50/pollRecords, "wall-ns/record")
}
