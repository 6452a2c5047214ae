package record_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// A standard decoder is the reference for values.
func FuzzDecode(f *testing.F) {
	for _, raw := range []string{goodEvent, goodMention, `{"globalEventId":1}`, `{"globalEventId":1,"x":"\\","day":2}`, ` {"globalEventId" : -0 , "a\"b":[{}]}`,
		`{"globalEventId":1,"sourceUrl":"\ud83d\ude00\u0000","mentionIdentifier":"\"\\"}`} {
		f.Add([]byte(raw), false)
		f.Add([]byte(raw), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, mention bool) {
		k := record.Event
		if mention {
			k = record.Mention
		}
		before := bytes.Clone(raw)
		var r record.Record
		err := record.Decode(k, raw, &r)
		if !bytes.Equal(raw, before) {
			t.Fatal("the bytes were changed")
		}
		if err != nil {
			if tidemill.KindOf(err) != tidemill.Validation {
				t.Errorf("refused as %v: %v", tidemill.KindOf(err), err)
			}
			return
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			t.Fatalf("taken, but it is no JSON: %v", err)
		}
		for i := range k.Fields() {
			f := record.Field(i)
			want, got := all[k.Name(f)], r.Value(f)
			if string(want) == "null" {
				want = nil
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is %q, want %q", k.Name(f), got, want)
			}
			if s, ok := r.Text(f); ok {
				var want string
				if err := json.Unmarshal(got, &want); err != nil || s != want {
					t.Errorf("%s is the text %q, want %q, %v", k.Name(f), s, want, err)
				}
			}
		}
		if out := r.AppendOut(nil); !json.Valid(out) {
			t.Errorf("what goes out is no JSON: %s", out)
		}
		var again record.Record
		in := r.AppendJSON(nil)
		if err := record.Decode(k, in, &again); err != nil {
			t.Fatalf("its own form is refused: %v", err)
		}
		if !bytes.Equal(again.AppendOut(nil), r.AppendOut(nil)) || !bytes.Equal(again.AppendQualifiedKey(nil), r.AppendQualifiedKey(nil)) {
			t.Error("its own form is read as another record")
		}
	})
}

// FuzzBatchID checks that accepted batch ids are valid.
func FuzzBatchID(f *testing.F) {
	f.Add([]byte("20250323151500"))
	f.Add([]byte(`"a\u0000"`))
	f.Fuzz(func(t *testing.T, value []byte) {
		id, err := record.BatchID([]tidemill.Field{{Name: []byte("X-Batch-ID"), Value: value}}, "")
		if err == nil && record.CheckBatchID(id) != nil {
			t.Errorf("%q is taken from %q", id, value)
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	var full record.Record
	if err := record.Decode(record.Event, []byte(strings.Replace(goodEvent, `\u0053`, "S", 1)), &full); err != nil {
		b.Fatal(err)
	}
	raw := full.AppendJSON(nil) // with all names
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(raw)))
		var r record.Record
		for b.Loop() {
			if err := record.Decode(record.Event, raw, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("key and out", func(b *testing.B) {
		b.ReportAllocs()
		var into []byte
		for b.Loop() {
			into = full.AppendOut(full.AppendKey(into[:0]))
		}
	})
}

func BenchmarkMention(b *testing.B) {
	raw := []byte(goodMention)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	var r record.Record
	var into []byte
	for b.Loop() {
		if err := record.Decode(record.Mention, raw, &r); err != nil {
			b.Fatal(err)
		}
		into = r.AppendOut(r.AppendKey(into[:0]))
	}
}
