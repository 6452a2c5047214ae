package queue

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
)

func TestAFailureIsReadAsItWasWritten(t *testing.T) {
	at := time.Date(2026, 11, 21, 19, 0, 0, 123e6, time.UTC)
	for _, c := range []struct {
		f    Failure
		text string
	}{
		{Failure{at, tidemill.Partner, "answered 503: try later"}, "2026-11-21T19:00:00.123Z partner_error answered 503: try later"},
		{Failure{at, tidemill.NoKind, ""}, "2026-11-21T19:00:00.123Z none "},
		{Failure{at.Truncate(time.Second), tidemill.Unknown, " a\nb "}, "2026-11-21T19:00:00.000Z unknown  a\nb "},
	} {
		text := c.f.Append(nil)
		if string(text) != c.text {
			t.Errorf("%+v is written %q, want %q", c.f, text, c.text)
		}
		if got, ok := ParseFailure(text); !ok || got != c.f {
			t.Errorf("%q is read as %+v, %v; want %+v", text, got, ok, c.f)
		}
	}
	elsewhere := Failure{At: at.In(time.FixedZone("", 3600)), Kind: tidemill.Timeout}
	if got, ok := ParseFailure(elsewhere.Append(nil)); !ok || !got.At.Equal(at) || got.At.Location() != time.UTC {
		t.Errorf("a time elsewhere is read as %v, want %v", got.At, at)
	}
}

func TestWhatIsNoFailure(t *testing.T) {
	for _, text := range []string{"", "2026-11-21T19:00:00.123Z", "2026-11-21T19:00:00.123Z timeout", "yesterday timeout x",
		"2026-11-21T19:00:00.123Z sadness x", "2026-11-21T19:00:00.123+01:00 timeout x"} {
		if f, ok := ParseFailure([]byte(text)); ok {
			t.Errorf("%q is read as %+v", text, f)
		}
	}
}

func TestFailuresOfAMessageAreThoseOfItsHeaders(t *testing.T) {
	f := []Failure{{time.UnixMilli(1).UTC(), tidemill.Timeout, "a"}, {time.UnixMilli(2).UTC(), tidemill.Partner, "b"}}
	m := &tidemill.Message{Header: []tidemill.Field{{Name: []byte("n"), Value: f[0].Append(nil)}}}
	for i := range f {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(FailuresHeader), Value: f[i].Append(nil)})
	}
	m.Header = append(m.Header, tidemill.Field{Name: []byte(FailuresHeader), Value: []byte("damaged")})
	if got := FailuresOf(m); !slices.Equal(got, f) {
		t.Errorf("failures are %+v, want %+v", got, f)
	}
}

func TestWhatWasSentIsBeforeTheFailures(t *testing.T) {
	own, failed := tidemill.Field{Name: []byte("n"), Value: []byte("1")}, tidemill.Field{Name: []byte(FailuresHeader)}
	for _, c := range []struct {
		header []tidemill.Field
		want   int
	}{{nil, 0}, {[]tidemill.Field{own}, 1}, {[]tidemill.Field{failed, failed}, 0}, {[]tidemill.Field{own, own, failed}, 2}} {
		got := Sent(&tidemill.Message{Header: c.header})
		if len(got) != c.want || cap(got) != c.want {
			t.Errorf("of %d headers %d of %d were sent, want %d", len(c.header), len(got), cap(got), c.want)
		}
	}
}

func TestACauseIsCutBetweenCharacters(t *testing.T) {
	for cut := range 4 {
		long := strings.Repeat("x", MaxFailure-cut) + strings.Repeat("😀", 3)
		want := MaxFailure - cut
		if got := CutCause(long); len(got) != want || !utf8.ValidString(got) {
			t.Errorf("a character of 4 bytes that begins %d before the end leaves %d bytes, want %d", cut, len(got), want)
		}
	}
	if s := strings.Repeat("€", MaxFailure/3); CutCause(s) != s {
		t.Error("a short cause was cut")
	}
	if broken := strings.Repeat("\x80", 2*MaxFailure); len(CutCause(broken)) < MaxFailure-utf8.UTFMax {
		t.Error("a cause that is no text is cut too far")
	}
}
