package rules

import "testing"

func TestReadable(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"\u0000b\u00e4\\u0000\n"}`:                                   `{"a":"\ufffdb\u00e4\\u0000\n"}`,
		`{"\u0000":"\ud83d\ude00 \ud83d"}`:                                 `{"\ufffd":"\ud83d\ude00 \ufffd"}`,
		`["\ude00\ud83d\ud83d\uDE00","\uD83Dx","\ud83d\u0000","\ud83d\n"]`: `["\ufffd\ufffd\ud83d\uDE00","\ufffdx","\ufffd\ufffd","\ufffd\n"]`,
		`{"a":1}`: `{"a":1}`,
	} {
		if got := string(readable([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
