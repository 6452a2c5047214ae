package event

import (
	"strings"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	at := func(s string) time.Time {
		w, err := time.Parse("2006-01-02 15:04:05.999999999", s)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	for _, c := range []struct {
		name, in, want string
	}{
		{"RFC 3339 with Z", "2026-01-15T10:02:03Z", "2026-01-15 10:02:03"},
		{"a fraction of one digit", "2026-01-15T10:02:03.5Z", "2026-01-15 10:02:03.5"},
		{"a fraction of nine digits", "2026-01-15T10:02:03.123456789Z", "2026-01-15 10:02:03.123456789"},
		{"more digits than a clock has", "2026-01-15T10:02:03.12345678999999Z", "2026-01-15 10:02:03.123456789"},
		{"an offset to the east", "2026-01-15T10:02:03+05:30", "2026-01-15 04:32:03"},
		{"an offset to the west over midnight", "2026-01-15T22:02:03.25-07:00", "2026-01-16 05:02:03.25"},
		{"an offset without a colon, as Python's %z", "2026-01-15T10:02:03+0100", "2026-01-15 09:02:03"},
		{"lower case", "2026-01-15t10:02:03z", "2026-01-15 10:02:03"},
		{"no zone is UTC", "2026-01-15 10:02:03", "2026-01-15 10:02:03"},
		{"no zone with a fraction, as ClickHouse", "2026-01-15 10:02:03.456", "2026-01-15 10:02:03.456"},
		{"a leap day", "2024-02-29T00:00:00Z", "2024-02-29 00:00:00"},
		{"a leap second is the next one", "2016-12-31T23:59:60Z", "2017-01-01 00:00:00"},
		{"blanks around", " 2026-01-15T10:02:03Z ", "2026-01-15 10:02:03"},
		{"the first second", "0001-01-01T00:00:00Z", "0001-01-01 00:00:00"},
		{"the last one", "9999-12-31T23:59:59.999Z", "9999-12-31 23:59:59.999"},
		{"Unix seconds", "1768471323", "2026-01-15 10:02:03"},
		{"Unix seconds with a fraction", "1768471323.5", "2026-01-15 10:02:03.5"},
		{"Unix milliseconds", "1768471323456", "2026-01-15 10:02:03.456"},
		{"Unix milliseconds with a fraction", "1768471323456.25", "2026-01-15 10:02:03.45625"},
		{"an exponent", "1.768471323456e12", "2026-01-15 10:02:03.456"},
		{"before 1970", "-1.5", "1969-12-31 23:59:58.5"},
		{"zero", "0", "1970-01-01 00:00:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseTime(c.in)
			if err != nil || !got.Equal(at(c.want)) || got.Location() != time.UTC {
				t.Errorf("ParseTime(%q) = %v, %v; want %s", c.in, got, err, c.want)
			}
		})
	}
	for _, in := range []string{"", " ", "yesterday", "2026-01-15", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2026-04-31T10:00:00Z",
		"2026-01-15T24:00:00Z", "2026-01-15T10:60:00Z", "2026-01-15T10:00:61Z", "2026-01-15T10:00Z", "2026-01-15T10:00:00.Z", "2026-01-15T10:00:00ZZ",
		"2026-01-15T10:00:00+24:00", "2026-01-15T10:00:00+1", "2026-01-15T10:00:00+01:0x", "2026-1-15T10:00:00Z", "0000-01-01T00:00:00Z",
		"0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z", "253402300800000", "1768471323456789", "1e300", "NaN", "Inf", "0x10", "1_000", "--1", "+1", "1.", ".5", "1e", "null",
		"2026-01-15T10:00:00" + string(make([]byte, 64))} {
		if got, err := ParseTime(in); err == nil {
			t.Errorf("ParseTime(%q) = %v", in, got)
		} else if r := refusal(t, err); r.Reason != Invalid {
			t.Errorf("ParseTime(%q) refused with %v", in, r)
		}
	}
}

func TestTimeOfAnEvent(t *testing.T) {
	const sent = "2026-01-15T09:30:00Z" // the client's clock is half an hour slow
	for _, c := range []struct {
		name   string
		format Format
		raw    string
		edit   func(*Meta)
		want   string
	}{
		{"a native event without times is now", Native, `{"event":"a","distinct_id":"u"}`, nil, "10:00:00.000"},
		{"a native event's delay is taken from our time", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "09:59:50.000"},
		{"a native delay of 48 hours is believed", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-13T09:30:00Z"}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "2026-01-13 10:00:00.000"},
		{"a native delay of more is not", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-13T09:29:59.999Z"}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "10:00:00.000"},
		{"a native event sent before it happened is now", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:30:00.001Z"}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "10:00:00.000"},
		{"a native time without a time of sending is not believed", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`, nil, "10:00:00.000"},
		{"a native import keeps its time", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T01:02:03.4567Z"}`,
			func(m *Meta) { m.Import = true; m.Sent, _ = ParseTime(sent) }, "01:02:03.456"},

		{"a PostHog time without a time of sending is kept", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`, nil, "09:29:50.000"},
		{"a PostHog time is corrected by the clock's error", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "09:59:50.000"},
		{"a PostHog event's own time of sending will do", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","sent_at":"2026-01-15T09:30:00Z"}`, nil, "09:59:50.000"},
		{"a time of sending that cannot be read is none", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","sent_at":"soon"}`, nil, "09:29:50.000"},
		{"$ignore_sent_at forbids the correction", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","properties":{"$ignore_sent_at":true}}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "09:29:50.000"},
		{"so does disable_skew_correction", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","options":{"disable_skew_correction":true}}`,
			func(m *Meta) { m.Sent, _ = ParseTime(sent) }, "09:29:50.000"},
		{"an offset is the event's age", PostHog, `{"event":"a","distinct_id":"u","offset":1500}`, nil, "09:59:58.500"},
		{"an offset that is none is ignored", PostHog, `{"event":"a","distinct_id":"u","offset":-5}`, nil, "10:00:00.000"},
		{"a time goes before an offset", PostHog, `{"event":"a","distinct_id":"u","offset":1500,"timestamp":"2026-01-15T09:00:00Z"}`, nil, "09:00:00.000"},
		{"a time of the far future is now", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2099-01-15T09:00:00Z"}`, nil, "10:00:00.000"},
		{"23 hours ahead are not the far future", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-16T09:00:00Z"}`, nil, "2026-01-16 09:00:00.000"},
		{"a PostHog import keeps its time", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2099-01-15T09:00:00Z"}`,
			func(m *Meta) { m.Import = true; m.Sent, _ = ParseTime(sent) }, "2099-01-15"},
		{"clocks far apart do not overflow", PostHog, `{"event":"a","distinct_id":"u","timestamp":"0002-01-01T00:00:00Z","sent_at":"9999-12-31T23:59:59Z"}`, nil, "0002-01-01"},
		{"Unix milliseconds are a PostHog time too", PostHog, `{"event":"a","distinct_id":"u","timestamp":1768469390000}`, nil, "09:29:50.000"},

		{"a Segment time is corrected", Segment, `{"type":"track","event":"a","userId":"u","timestamp":"2026-01-15T09:29:50Z","sentAt":"2026-01-15T09:30:00Z"}`, nil, "09:59:50.000"},
		{"the original Segment time goes first", Segment, `{"type":"track","event":"a","userId":"u","timestamp":"2026-01-15T01:00:00Z","originalTimestamp":"2026-01-15T09:29:50Z","sentAt":"2026-01-15T09:30:00Z"}`, nil, "09:59:50.000"},
		{"a Segment import keeps its time", Segment, `{"type":"track","event":"a","userId":"u","timestamp":"2025-01-15T09:29:50Z","sentAt":"2026-01-15T09:30:00Z"}`,
			func(m *Meta) { m.Import = true }, "2025-01-15"},
		{"a CloudEvent keeps its time", CloudEvents, `{"specversion":"1.0","id":"1","source":"s","type":"a","subject":"u","time":"2026-01-15T09:29:50.5+00:00"}`, nil, "09:29:50.500"},
		{"a CloudEvent without one is now", CloudEvents, `{"specversion":"1.0","id":"1","source":"s","type":"a","subject":"u"}`, nil, "10:00:00.000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := door(c.format)
			if c.edit != nil {
				c.edit(&m)
			}
			e := decoded(t, m, c.raw)
			if got := e.Timestamp.Format("2006-01-02 15:04:05.000"); !strings.Contains(got, c.want) {
				t.Errorf("time %s; want %s", got, c.want)
			}
		})
	}
	m := door(Native)
	m.Import = true
	refusal(t, Decode(&m, []byte(`{"event":"a","distinct_id":"u"}`), new(Event)))
}
