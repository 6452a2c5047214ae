package wire

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	at := time.Date(-44, 3, 15, 12, 0, 0, 123456789, time.UTC)
	b := []byte{7}
	b = AppendString(b, "text")
	b = AppendString(b, []byte{0xff, 0})
	b = AppendTime(b, at)
	b = binary.AppendUvarint(b, 1<<63)
	b = binary.AppendVarint(b, -1)
	r := NewReader(b)
	if r.Byte() != 7 || string(r.Bytes()) != "text" || string(r.Bytes()) != "\xff\x00" || !r.Time().Equal(at) || r.Uvarint() != 1<<63 || r.Varint() != -1 || r.End() != nil {
		t.Error("something else was read than was written")
	}
	for n := range b { // cut anywhere
		r := NewReader(b[:n])
		r.Byte()
		r.Bytes()
		r.Bytes()
		r.Time()
		r.Uvarint()
		r.Varint()
		if r.End() == nil {
			t.Errorf("cut after %d bytes it is read as whole", n)
		}
	}
	for _, b := range [][]byte{{5}, {2, 0}, {0xff, 0xff, 0xff, 0xff, 0x0f}} {
		if r := NewReader(b); r.Count() != 0 || r.End() == nil {
			t.Errorf("%v counts more than it has room for, and is no damage", b)
		}
	}
	if r := NewReader([]byte{1, 9}); r.Count() != 1 || r.Byte() != 9 || r.End() != nil {
		t.Error("one thing is not counted")
	}
	if NewReader([]byte{1}).End() == nil {
		t.Error("bytes that nobody read are no damage")
	}
}

func TestMilliseconds(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC)
	if Millis(time.Time{}) != 0 || MillisUp(time.Time{}) != 0 || !Instant(0).IsZero() {
		t.Error("the zero time is not 0")
	}
	if ms := Millis(at); !Instant(ms).Equal(at.Truncate(time.Millisecond)) || MillisUp(at) != ms+1 || MillisUp(Instant(ms)) != ms {
		t.Error("milliseconds are not rounded as they should be")
	}
}
