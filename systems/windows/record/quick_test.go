package record

import (
	"bytes"
	"testing"
)

// What quick accepts is read as thorough reads it, and it accepts nothing else.
func FuzzQuick(f *testing.F) {
	for _, raw := range []string{
		`{"globalEventId":7,"day":20250323,"fractionDate":2025.2247,"actor1Code":"USA","actor1Name":null,"sourceUrl":"https://example.com/a"}`,
		`{"globalEventId":7,"sentenceId":3,"mentionIdentifier":"K\u00f6ln \n \"\\","mentionDocTone":-2.50e+1}`,
		"\t{\"day\" :\r20250323 , \"globalEventId\": -0\n, \"else\":true,\"mentionIdentifier\":\"Köln, 東京, 12345678\"} ",
		` {"actor1Code":"USA","actor1Name":"X","globalEventId":7}`, `{"globalEventId":7,"actor1Code":"A","actor1Name": "B","actor1CountryCode":null,"actor1KnownGroupCode":null}`,
		`{}`, `{"globalEventId":7,}`, `{"globalEventId":07}`, `{"globalEventId":7.}`, `{"globalEventId":7}x`, `{"globalEventId":7,"globalEventId":7}`,
		`{"globalEventId":7,"a":[1]}`, `{"globalEventId":7,"\u0064ay":1}`, "{\"globalEventId\":7,\"a\":\"\xff\"}", "{\"globalEventId\":7,\"a\":\"\x1f\"}", `{"globalEventId":7,"a":nul}`,
		`{"globalEventId":7,"a":"1234567\`, `{"globalEventId":7,"a":"\x"}`, "{\"globalEventId\":7\v}", `{"globalEventId":7 "day":1}`, `{"globalEventId":7,"a\\":1}`,
	} {
		f.Add([]byte(raw), false)
		f.Add([]byte(raw), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, mention bool) {
		k := Event
		if mention {
			k = Mention
		}
		var r, want Record
		r.Reset(k)
		if !r.quick(raw) {
			return
		}
		if err := want.thorough(k, raw); err != nil {
			t.Fatalf("%q is taken: %v", raw, err)
		}
		for i := range r.values {
			if !bytes.Equal(r.values[i], want.values[i]) || (r.values[i] == nil) != (want.values[i] == nil) {
				t.Errorf("value %d of %q is %q, want %q", i, raw, r.values[i], want.values[i])
			}
		}
		if r.ID != want.ID {
			t.Errorf("the id is %d, want %d", r.ID, want.ID)
		}
		if got, want := r.AppendOut(nil), want.AppendOut(nil); !bytes.Equal(got, want) {
			t.Errorf("%q goes out as %s, want %s", raw, got, want)
		}
	})
}

// A changed value goes out as it is now, even if all around it is copied.
func TestWhatWasSetGoesOut(t *testing.T) {
	var r, c Record
	if err := Decode(Mention, []byte(`{"globalEventId":7,"sentenceId":3,"actor1CharOffset":4,"actor2CharOffset":5,"actionCharOffset":6}`), &r); err != nil {
		t.Fatal(err)
	}
	if err := r.Set(Actor2CharOffset, []byte("55")); err != nil {
		t.Fatal(err)
	}
	c.CopyFrom(&r)
	if err := c.Set(SentenceID, nil); err != nil {
		t.Fatal(err)
	}
	const before, after = `{"globalEventId":7,"eventTimeDate":null,"elasticIndexDate":null,"mentionTimeDate":null,"mentionType":null,"mentionSourceName":null,"mentionIdentifier":null,`,
		`"actor1CharOffset":4,"actor2CharOffset":55,"actionCharOffset":6,"inRawText":null,"confidence":null,"mentionDocLen":null,"mentionDocTone":null,"mentionDocTranslationInfo":null}`
	if got := string(r.AppendOut(nil)); got != before+`"sentenceId":3,`+after {
		t.Errorf("got %s", got)
	}
	if got := string(c.AppendOut(nil)); got != before+`"sentenceId":null,`+after {
		t.Errorf("got %s", got)
	}
}

func TestTheUsualFormIsReadQuickly(t *testing.T) {
	for _, raw := range []string{
		`{"globalEventId":7,"day":20250323,"actor1Name":"K\n","avgTone":-1.5e3,"isRootEvent":null,"unknown":true,"actor1Code":"Köln"}`,
		` { "day" : 1 , "globalEventId" : 7 } `,
	} {
		var r Record
		if r.Reset(Event); !r.quick([]byte(raw)) {
			t.Errorf("%s takes the long way", raw)
		}
	}
}
