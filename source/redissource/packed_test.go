package redissource

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
)

// Every length that MessagePack writes in another way, with bytes that mean something there.
func TestPackedEntriesComeOutAsTheyAre(t *testing.T) {
	each(t, func(b *table) {
		var want [][]byte
		for _, n := range []int{0, 1, 31, 32, 127, 128, 255, 256, 257, 65535, 65536, 70000} {
			text := make([]byte, n)
			_, _ = rand.Read(text)
			want = append(want, text)
		}
		want = append(want, []byte("\r\n$3\r\n"), []byte{0xdc, 0xff, 0xff}, bytes.Repeat([]byte{0x92}, 20))
		var many []string
		for i := range 300 {
			many = append(many, fmt.Sprint("f", i%7), "v")
		}
		s := b.open(b.client, Options{})
		b.books(s, tidemill.Books{})
		for _, text := range want {
			b.do("XADD", b.stream, "*", string(text), "x")
			b.do("XADD", b.stream, "*", "data", string(text))
			b.do("XADD", b.stream, "*", "one", "1", "two", string(text), "one", "")
			for range 14 { // fifteen fields, and sixteen
				many = append(many, "n", "v")
			}
		}
		b.do(append([]string{"XADD", b.stream, "18446744073709551615-1"}, many[:30]...)...)
		b.do(append([]string{"XADD", b.stream, "18446744073709551615-2"}, many[:32]...)...)
		b.do(append([]string{"XADD", b.stream, "18446744073709551615-18446744073709551615"}, many...)...)
		into := make([]*tidemill.Message, 3*len(want)+3)
		for i := range into {
			into[i] = new(tidemill.Message)
		}
		if err := s.reader.readPacked(b.Context(), len(into)); err != nil {
			b.Fatal(err)
		}
		n, err := s.reader.hand(b.Context(), into)
		for n < len(into) && err == nil { // it stops when it has enough bytes
			b.Logf("%d at first", n)
			if err = s.reader.readPacked(b.Context(), len(into)-n); err == nil {
				var more int
				if more, err = s.reader.hand(b.Context(), into[n:]); more == 0 {
					b.Fatalf("%d came, want %d", n, len(into))
				}
				n += more
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		for i, text := range want {
			byName, data, three := into[3*i], into[3*i+1], into[3*i+2]
			if len(byName.Header) != 1 || !bytes.Equal(byName.Header[0].Name, text) || string(byName.Payload) != "x" {
				b.Errorf("a name of %d bytes came as %d headers", len(text), len(byName.Header))
			}
			if !bytes.Equal(data.Payload, text) || cap(data.Payload) != len(data.Payload) {
				b.Errorf("a payload of %d bytes came as %d, with room for %d", len(text), len(data.Payload), cap(data.Payload))
			}
			if len(three.Header) != 3 || string(three.Header[0].Value) != "1" || !bytes.Equal(three.Header[1].Value, text) || string(three.Header[2].Name) != "one" || three.Payload != nil {
				b.Errorf("three fields came as %d", len(three.Header))
			}
		}
		last := into[len(into)-3:]
		if len(last[0].Header) != 15 || len(last[1].Header) != 16 || len(last[2].Header) != len(many)/2 || last[2].ID != "18446744073709551615-18446744073709551615" {
			b.Errorf("the last ones came with %d, %d and %d fields, as %s", len(last[0].Header), len(last[1].Header), len(last[2].Header), last[2].ID)
		}
		if got := b.deliver(s, into...); got != len(into) {
			b.Errorf("%d of %d were settled", got, len(into))
		}
	})
}

func FuzzPacked(f *testing.F) {
	f.Add("\x91\x92\xa31-1\x92\xa1a\xa1b")
	f.Add("\xdc\x00\x01\x92\xd9\x031-1\xdc\x00\x02\xda\x00\x01a\xdb\x00\x00\x00\x01b\x90")
	f.Add("\xdd\xff\xff\xff\xff\x92\xa31-1\x92\xdb\xff\xff\xff\xff")
	f.Add("\x91\x92\xa31-1\x91\xa1a")
	f.Fuzz(func(t *testing.T, packed string) {
		var b batch
		if err := b.parsePacked(packed); err != nil {
			return
		}
		size := 0
		for _, e := range b.entries {
			size += len(e.id)
			for _, f := range e.fields {
				size += len(f.Name) + len(f.Value)
			}
		}
		if size > len(packed) {
			t.Errorf("%d bytes became %d", len(packed), size)
		}
	})
}

// While a stream is busy, entries cost no memory of their own, and settlements neither.
func TestABusyStreamCostsFewAllocations(t *testing.T) {
	b := newTable(t, testenv.Redis(t))
	const each, rounds = 1000, 20
	payload := strings.Repeat("x", 200)
	var cmds rueidis.Commands
	for range each {
		cmds = append(cmds, b.client.B().Xadd().Key(b.stream).Id("*").FieldValue().FieldValue("payload", payload).Build().Pin())
	}
	for range rounds {
		b.client.DoMulti(t.Context(), cmds...)
	}
	s := b.open(b.client, Options{Lease: time.Minute})
	into, ends := make([]*tidemill.Message, each), make([]tidemill.Settlement, 0, each)
	for i := range into {
		into[i] = new(tidemill.Message)
	}
	settled := 0
	work := func() {
		for n := settled + each; settled < n; {
			got, err := s.Receive(t.Context(), into)
			if err != nil {
				t.Fatal(err)
			}
			// As a bridge does: each is left, and acked from outside.
			for _, acks := range []bool{false, true} {
				ends = ends[:0]
				for _, m := range into[:got] {
					if acks {
						ends = append(ends, tidemill.Settlement{ID: m.ID, Fate: tidemill.Delivered})
					} else {
						ends = append(ends, tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Left})
					}
				}
				if err := s.Settle(t.Context(), ends); err != nil {
					t.Fatal(err)
				}
			}
			for i := range ends {
				if ends[i].Outcome != applied {
					t.Fatalf("ack of %s was answered %v", ends[i].ID, ends[i].Outcome)
				}
			}
			settled += got
		}
	}
	work() // maps and lists take their size
	if allocs := testing.AllocsPerRun(10, work) / each; allocs > 0.1 {
		t.Errorf("an entry costs %.3f allocations, want 0.1 at most", allocs)
	} else {
		t.Logf("an entry costs %.3f allocations", allocs)
	}
}
