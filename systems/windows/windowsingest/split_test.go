package windowsingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func texts(raws []raw) []string {
	all := make([]string, len(raws))
	for i, r := range raws {
		all[i] = string(r.bytes)
	}
	return all
}

// value draws JSON as programs write it, and worse: large numbers, names in any order and
// twice, escapes, and texts that are no UTF-8.
func value(t *rapid.T, depth int) string {
	white := func() string { return rapid.SampledFrom([]string{"", "", "", " ", "\t", "\r\n"}).Draw(t, "white") }
	text := func() string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", `\"`, `\\`, `\u0000`, `\ud800`, "\xff", "é", "]", "[", "{", "}", ",", ":", " ", "\xe2\x80", `\\\"`}), 0, 6).Draw(t, "text")
		return `"` + strings.Join(parts, "") + `"`
	}
	most := 5
	if depth == 0 {
		most = 3
	}
	switch rapid.IntRange(0, most).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"0", "-0", "12345678901234567890123", "1.50", "1e400", "-2.0E-3"}).Draw(t, "number")
	case 1:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 2, 3:
		return text()
	case 4:
		all := make([]string, rapid.IntRange(0, 4).Draw(t, "elements"))
		for i := range all {
			all[i] = white() + value(t, depth-1) + white()
		}
		return "[" + strings.Join(all, ",") + white() + "]"
	}
	all := make([]string, rapid.IntRange(0, 4).Draw(t, "members"))
	for i := range all {
		all[i] = white() + text() + white() + ":" + white() + value(t, depth-1) + white()
	}
	return "{" + strings.Join(all, ",") + "}"
}

func TestSplittingKeepsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := make([]string, rapid.IntRange(0, 6).Draw(t, "values"))
		for i := range values {
			values[i] = value(t, 3)
		}
		between := rapid.SampledFrom([]string{",", " ,\n", ",\t", "\r\n,"}).Draw(t, "between")
		body := "[" + strings.Join(values, between) + "]\n"
		if !isJSON([]byte(body)) {
			t.Fatalf("the test draws what is no JSON: %q", body)
		}
		if got, err := splitArray([]byte(body), 6); err != nil || strings.Join(texts(got), "\x00") != strings.Join(values, "\x00") {
			t.Errorf("the array %q gives %q, %v", body, texts(got), err)
		}
		if n := len(values); n > 0 {
			if _, err := splitArray([]byte(body), n-1); !errors.Is(err, errTooMany) {
				t.Errorf("%d of %d: %v", n-1, n, err)
			}
		}
		var lines []string
		for _, v := range values {
			if !strings.ContainsAny(v, "\r\n") {
				lines = append(lines, v)
			}
		}
		between = rapid.SampledFrom([]string{"\n", "\r\n", " \n\n\t", "\n\r\n"}).Draw(t, "between lines")
		body = between + strings.Join(lines, between)
		if got, err := splitLines([]byte(body), 6); err != nil || strings.Join(texts(got), "\x00") != strings.Join(lines, "\x00") {
			t.Errorf("lines %q give %q, %v", body, texts(got), err)
		}
	})
}

// Two decoders are the judges: what they take for an array of values is split as they do, and
// nothing else is taken for one.
func FuzzSplitArray(f *testing.F) {
	for _, s := range []string{`[]`, `[1,"a\"b",{"a":[1,2]}]`, `[{"a":1]]`, `["a]`, "[\"\xff\"]", `[1 2]`, `[1,]`, `[,1]`, `[[[`, `]`, `[tru]`, `[:]`, `["\\"]`, "[1]\x00", `[{"a"}]`, `[""a]`, `[{}{}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Trim(b, space)
		before := bytes.Clone(b)
		got, err := splitArray(b, len(b)+1)
		if !bytes.Equal(b, before) {
			t.Fatal("the bytes were changed")
		}
		good := err == nil
		for _, r := range got {
			good = good && isJSON(r.bytes)
		}
		valid := len(b) > 0 && b[0] == '[' && isJSON(b)
		// Of what is very deep the decoder refuses the whole, and takes the parts.
		if deep := bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) >= 10_000; good && !valid && !deep {
			t.Fatalf("%q is taken as %q, and is no array", b, texts(got))
		}
		if !valid {
			return
		}
		if !good {
			t.Fatalf("%q is an array: %q, %v", b, texts(got), err)
		}
		var all []json.RawMessage
		if json.Unmarshal(b, &all) != nil { // it is stricter in some
			return
		}
		if len(all) != len(got) {
			t.Fatalf("%q has %d elements, want %d", b, len(got), len(all))
		}
		for i := range all {
			if !bytes.Equal(all[i], got[i].bytes) {
				t.Errorf("element %d of %q is %q, want %q", i, b, got[i].bytes, all[i])
			}
		}
	})
}

func FuzzBody(f *testing.F) {
	for _, s := range []string{event(1), "[" + event(1) + "," + event(2) + ",1]", event(1) + "\n" + event(2) + "\n{", "[]", "", zipped(event(1)), "[[[", "{\"globalEventId\":1,\"sourceUrl\":\"\xff\"}"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	d := newEndpoint(f)
	f.Fuzz(func(t *testing.T, b []byte, lines bool) {
		d.t = t
		var h header
		if lines {
			h = ndjson
		}
		before := d.Handled()
		w := d.ask("POST", Path+"/events", string(b), h)
		d.idle()
		switch w.Code {
		case 202, 400, 413, 415, 422:
		default:
			t.Errorf("answered %d to %q", w.Code, b)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the answer to %q is no JSON: %q", b, w.Body)
		}
		after := d.Handled()
		if taken := after.Accepted + after.Duplicate - before.Accepted - before.Duplicate; (w.Code == 202) != (taken > 0) {
			t.Errorf("%d, and %d are taken: %q", w.Code, taken, b)
		}
		for name, record := range d.kept(batch) {
			if !isJSON([]byte(record)) {
				t.Errorf("%s is no JSON: %q", name, record)
			}
			if w.Code == 202 && !packed(b) && !bytes.Contains(b, []byte(record)) {
				t.Errorf("%s is not what was sent: %q, not %q", name, record, b)
			}
		}
		if _, err := d.windows.CloseNow(t.Context(), of("club", batch)); err != nil {
			t.Fatal(err)
		}
		d.clear(t)
	})
}

// packed says whether a body begins as gzip does.
func packed(b []byte) bool { return len(b) > 1 && b[0] == 0x1f && b[1] == 0x8b }
