package analyticsingest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

// The vectors are the output of lz-string 1.5.0, LZString.compressToBase64.
func TestUnLZ(t *testing.T) {
	for _, c := range []struct{ want, in string }{
		{"", "Q==="},
		{"a", "IZA="},
		{"aa", "IbI="},
		{"aaaaaaaaaaaaaaaaaaaaaaaa", "IY18aQ=="},
		{"{\"event\":\"x\"}", "N4IgpgbmB2AuIC4QA8QF8g=="},
		{"Grüße, 世界 🌍!", "OIJwPw+wpgNABINDlAyrnQPBuFh9ghEA"},
		{"\u0000\uffff", "ACf/+g=="},
		{"\ufffd alone", "gAbAIIYDYPYHYKZA"}, // half a surrogate pair
		{"{\"token\":\"phc_key\",\"event\":\"$pageview\",\"distinct_id\":\"u1\",\"properties\":{\"a\":[1,2,3]}}", "N4IgLg9g1gpgdiAXCADgCwMYH1YE8QA0IMAbvGEiACQoCGA5qQJYwDuhIAJkwM5hNwMYLE06UArgEYOKAE4QUMWfxg8koWkgDakggCYCAZgC6AX1NA=="},
	} {
		digits := strings.TrimRight(c.in, "=")
		bits, err := base64.StdEncoding.DecodeString(digits + strings.Repeat("A", 3-(len(digits)+3)%4))
		if err != nil {
			t.Fatal(err)
		}
		got, err := unLZ([]byte("x"), bits, 1000)
		if err != nil || string(got) != "x"+c.want {
			t.Errorf("unLZ(%s) = %q, %v; want %q", c.in, got, err, "x"+c.want)
		}
	}
}

func TestUnLZOfManyCodes(t *testing.T) {
	bits, err := base64.StdEncoding.DecodeString(lzEvents)
	if err != nil {
		t.Fatal(err)
	}
	got, err := unLZ(nil, bits, 1<<20)
	sum := sha256.Sum256(got)
	if err != nil || hex.EncodeToString(sum[:]) != lzEventsHash {
		t.Errorf("got %d bytes, %v:\n%.200s…", len(got), err, got)
	}
}

// Its digits are of 6 bits and end where the bits end, which need not be with a byte.
func TestLZStringsOfAllLengths(t *testing.T) {
	for _, c := range []struct{ event, in string }{
		{"x1", "N4IghgDglg+g1gUwJ4gFwggCwMYwOYD2BAJiADQgBGYALtpmgNqgIBuCAdjWiAB4CM5EMSgBnGlA7YaMKKXQBXEAF8AusqA="},
		{"xx2", "N4IghgDglg+g1gUwJ4gFwggCwMYwOYD2BAJiADQgBGYALtpmgNqgIBuCAdjWiAB68AmciGJQAzjSgdsNGFFLoAriAC+AXRVA"},
		{"xxxx4", "N4IghgDglg+g1gUwJ4gFwggCwMYwOYD2BAJiADQgBGYALtpmgNqgIBuCAdjWiAB7+8ALORDEoAZxpQO2GjCil0AVxABfALqqgA=="},
		{"xxxxxxxxxx10", "N4IghgDglg+g1gUwJ4gFwggCwMYwOYD2BAJiADQgBGYALtpmgNqgIBuCAdjWiAB78DBARgAM5EMSgBnGlA7YaMKKXQBXEAF8AuhqA==="},
	} {
		d := newTestIngest(t)
		w := d.send("/e/?compression=lz64", c.in)
		if w.Code != 200 || len(d.intake.jobs) != 1 || d.intake.jobs[0].Type != c.event {
			t.Errorf("%d digits: %d %s, jobs %q", len(strings.TrimRight(c.in, "=")), w.Code, w.Body, d.payloads())
		}
	}
}

func TestUnLZIsBounded(t *testing.T) {
	bits, _ := base64.StdEncoding.DecodeString(lzAs)
	if got, err := unLZ(nil, bits, 5000); err != nil || string(got) != strings.Repeat("a", 5000) {
		t.Errorf("%d bytes, %v; want 5000", len(got), err)
	}
	if _, err := unLZ(nil, bits, 4999); err != errLZLimit {
		t.Errorf("error %v; want %v", err, errLZLimit)
	}
}

func TestUnLZRefusesWhatIsCut(t *testing.T) {
	bits, _ := base64.StdEncoding.DecodeString(lzEvents)
	for _, n := range []int{1, 7, len(bits) / 2, len(bits) - 2} {
		if got, err := unLZ(nil, bits[:n], 1<<20); err == nil {
			t.Errorf("the first %d bytes stand for %q; want an error", n, got)
		}
	}
}

func FuzzUnLZ(f *testing.F) {
	for _, s := range []string{lzEvents, lzAs, "OIJwPw+wpgNABINDlAyrnQPBuFh9ghEA"} {
		bits, _ := base64.StdEncoding.DecodeString(s)
		f.Add(bits)
	}
	f.Fuzz(func(t *testing.T, bits []byte) {
		if out, err := unLZ(nil, bits, 10_000); err == nil && len(out) > 10_000 {
			t.Errorf("%d bytes came out; the limit is 10000", len(out))
		}
	})
}

const (
	lzAs         = "IY18ZXTt/DFOS1b0c17Pd/wYUcSaWeRZVdTbXfQ408y62+x519z73/wMFDhI0WPETJU6TNlz5CxUuUrVa9Rs1btO3Xv0HDR4ydMsgA=="
	lzEventsHash = "c022a33124827bcd8b2a5d59039786811aec77ce375a2cec8c0160f4844f7c7b"
	lzEvents     = "NobwRApgbhB2AuYBcYAOBDA5hABABjABowATASwGd4zYBjeAfTJOTAFcKIAnAWgONRcA9qm7UIFZODZcANqwAW8eKgpIA9OogAPdAFtUsiADpaQvev5hYyPAF87hcNDiIUGbDgCMRUpWp0jMysHNw8PgLColzikkjScorKqhpaugZGpubqEdbIXg5OkDAIrB64AEy+5FQ09EwsKKG8VZEiYmQSUuyJKEoqapo6+oYmZhYALL42SBWFziVuaFi4AMzV/nVBjeycvOtt0bHdMvJ9yYNpI5nj6gCc08ir88WuZSs4U8Q1AfXBTXseF80FEOl14j0zmB+ikhulRlkLF4AGyPJATF4uUruD4AVg2tUCDRCgPxhzBcQSUJhl2GGTG2QqZLySFxmMW708qO+myJ/12YW5IPaMU6lMhSQGqTpCNuqyFM2R7LeOM8AHYCb9tiSwlZBCLjhDTpLYVd6Yj1BMHsQZmrldjlp4AByarbEgFhXL6o5ik69aEXaXwm7ZZHAmZO+1Lco4a1+Ql/HbNHitYU+8FUk204MMixO3IzO5Rzm4LxWH5u/nJg5pil+6mBuHXXM5PBWGZl4uq0u5Ct8pOA4HeutG/00oPNi1eCoF/IFRwLFWO0upvuJnW8ZnD0UZiXnKVN823LwTcP5OYL14OmNeGtr7Ue3hC7eGzP700ykNI5FxjvPS9YtGHwnq6/Ybnwvgvr6o4NgeZqytkXh3Aq+QYgBHLdt4zL3u6Aq8F6oI7uKxrvtmk63BUTJol4bLoUuN5CjhVaAqmUG7iRAZwZ+LZMihSAol2y7eBqPIJg+eE8DWbHEWOjbwV+6gVE6v75HadHXsBLqiVquHJkOhGvnunEfjmFqrBUZ78ZG6lAZ4SGgeuj48FuBnQW+xlkUe2TyrO/FFjZJY4BU5a8o5EnPq57GyVxpm3BMbZosFgkxjODnicmeqRTJsEmeR2Snr5M7JR8lFpbpgIEQablGeOh4IZMTqWZRxWeBUd6helLGQVl9ZZhOXkWLiFQqbM/5FIBgUWWVzFhFJPUwX1dUKbiap8RZLWVNhHXlWE+lVVFOWefV6jIlRNrIEyG1BYx20zZu3X7dli3yS2yKrYlSoBZhFQifGOl3TwEWPb1pH9cdarDYlanjRhQlKdNA66g96ZPaDS0tmqjWJdZMP0SVcZMYj+HIyO7m1S9FqNYV/m4xpnirCFYk7S0JNESDHlgwpdwJedSAM1dqy9rdROSazhkceT3EWshvmCwLq7C+Be0o+zkuxYheBTbz5kC+1TMAy5wMLWjFPHngyloqsY2LnTazAoT4FAyrxsc+jU40XxqxobTtlrFt+si5lRtk3JUvHpRzIzKstE+4F8oI+BlXOyHMV5Uiw2e59seYasv0O05rHzSnuUDTk8ojbnAtaX9lYi3Nwc1aH6tIqelmrDjNu+zgqwE4rTnK6Tjep6XNGpdr/kALpAA"
)
