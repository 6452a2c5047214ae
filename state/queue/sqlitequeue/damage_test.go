package sqlitequeue

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/queue"
)

func TestDamagedJobsAreTakenOutAndAccountedFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		where int // of the byte that is changed in the segment of ten; -1: a late job
		lost  int
	}{
		{"in a payload, one job", -2, 1},
		{"in the sizes, the whole segment", 3, 10},
		{"in the checksum of the sizes, the whole segment", 41, 10},
		{"in a late job", -1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFile(t, Options{}).open()
				var jobs []*tidemill.Message
				for i := range 10 {
					jobs = append(jobs, &tidemill.Message{ID: fmt.Sprint(i), To: "q", Payload: fmt.Appendf(nil, "payload %d", i)})
				}
				if err := s.Add(t.Context(), jobs, nil); err != nil {
					t.Fatal(err)
				}
				late := &tidemill.Message{ID: "late", To: "q", At: time.Now().Add(time.Millisecond), Payload: []byte("payload late")}
				if err := s.Add(t.Context(), []*tidemill.Message{late}, nil); err != nil {
					t.Fatal(err)
				}
				flip(t, s, c.where)
				forgetAhead(s, "q")
				time.Sleep(2 * time.Millisecond) // until the late one is due
				src := s.Open("q", queue.Options{})
				for left := 11 - c.lost; left > 0; {
					into := make([]*tidemill.Message, 20)
					for i := range into {
						into[i] = new(tidemill.Message)
					}
					n, err := src.Receive(t.Context(), into)
					if err != nil {
						t.Fatal(err)
					}
					var ends []tidemill.Settlement
					for _, m := range into[:n] {
						if want := "payload " + m.ID; string(m.Payload) != want {
							t.Errorf("job %s came out with payload %q", m.ID, m.Payload)
						}
						ends = append(ends, tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered})
					}
					if err := src.Settle(t.Context(), ends); err != nil {
						t.Fatal(err)
					}
					left -= n
				}
				want := tidemill.Books{Accepted: 11, Settled: tidemill.Count{Delivered: uint64(11 - c.lost), Dead: uint64(c.lost)}}
				if got, err := src.(tidemill.Bookkeeper).Books(t.Context()); err != nil || got != want {
					t.Errorf("books are %+v, %v; want %+v", got, err, want)
				}
				if n, err := s.Damaged(t.Context(), "q"); err != nil || n != c.lost {
					t.Errorf("%d jobs are kept as damaged, %v; want %d", n, err, c.lost)
				}
			})
		})
	}
}

// flip changes one byte of what the queue holds.
func flip(t *testing.T, s *Store, where int) {
	t.Helper()
	err := s.db.Write(t.Context(), func(tx *sqlitedb.Tx) error {
		table, column := "queue_segment", "jobs"
		if where == -1 {
			table, column = "queue_late", "job"
		}
		var blob []byte
		if err := tx.QueryRow("SELECT " + column + " FROM " + table).Scan(&blob); err != nil {
			return err
		}
		if where < 0 {
			where = bytes.Index(blob, []byte("payload")) + 2
		}
		blob[where] ^= 0x10
		_, err := tx.Exec("UPDATE "+table+" SET "+column+"=?", blob)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// forgetAhead drops what was handed over in memory, so that it is read.
func forgetAhead(s *Store, name string) {
	q := s.find(name)
	mem := q.lock()
	defer q.unlock()
	for _, of := range mem.waiting.groups {
		of.ready, of.cursor = nil, 0
	}
	mem.waiting.ahead = 0
	clear(mem.log.segs)
}

func FuzzReadRecord(f *testing.F) {
	m := &tidemill.Message{ID: "id", Tenant: "t", Type: "ty", Key: []byte("k"), Payload: []byte("p"),
		Header: []tidemill.Field{{Name: []byte("n"), Value: []byte("v")}}}
	f.Add(appendRecord(nil, m, 1)[4:])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		rec := sealed(body) // so that what comes after the checksum is reached
		var got tidemill.Message
		added, err := readRecord(rec, &got)
		if err != nil {
			return // refusing is fine, panicking is not
		}
		var back tidemill.Message
		if again, err := readRecord(appendRecord(nil, &got, added), &back); err != nil || again != added || back.ID != got.ID ||
			!bytes.Equal(back.Payload, got.Payload) || len(back.Header) != len(got.Header) || !back.Time.Equal(got.Time) {
			t.Errorf("%x is read as %+v, and after writing as %+v, %v", body, got, back, err)
		}
	})
}

func FuzzCutSegment(f *testing.F) {
	f.Add(appendSegment(nil, [][]byte{{1, 2, 3}, {}, {4}}), 3)
	f.Fuzz(func(t *testing.T, blob []byte, n int) {
		if n < 1 || n > segmentJobs {
			return
		}
		records, err := cutSegment(blob, n)
		if err == nil && len(records) != n {
			t.Errorf("a segment of %d has %d records", n, len(records))
		}
	})
}

// sealed puts the right checksum before a record's body.
func sealed(body []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)), body...)
}
