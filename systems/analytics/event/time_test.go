package event

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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
	sentAt := func(clock string) func(*Meta) {
		return func(m *Meta) { m.Sent, _ = ParseTime("2026-01-15T" + clock + "Z") }
	}
	for _, c := range []struct {
		name   string
		format Format
		raw    string
		edit   func(*Meta)
		want   string
	}{
		{"without a time it is now", Native, `{"event":"a","distinct_id":"u"}`, nil, "10:00:00.000"},
		{"latency moves nothing", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:59:50Z"}`, sentAt("09:59:59.750"), "09:59:50.000"},
		{"nor does a time of sending that is kept over retries", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:55:00Z"}`, sentAt("09:55:00"), "09:55:00.000"},
		{"nor a clock that is a little fast", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T10:00:59.9Z"}`, sentAt("10:01:00"), "10:00:59.900"},
		{"nor a long wait in the client", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-10T10:00:00Z"}`, sentAt("10:00:00"), "2026-01-10 10:00:00.000"},
		{"nor anything else where the time of sending is not said", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`, nil, "09:29:50.000"},
		{"a slow clock is corrected", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`, sentAt("09:30:00"), "09:59:50.000"},
		{"by whole minutes, so that latency is no part of it", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z"}`, sentAt("09:29:59.5"), "09:59:50.000"},
		{"a fast clock is corrected", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T11:59:50.123Z"}`, sentAt("12:00:00"), "09:59:50.123"},
		{"also if the request took long", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T12:00:00Z"}`, sentAt("11:59:30"), "10:00:00.000"},
		{"the bound for slow clocks is a setting", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:50:00Z"}`,
			func(m *Meta) { sentAt("09:50:00")(m); m.Clock.Behind = 10 * time.Minute }, "09:50:00.000"},
		{"and of fast ones", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T10:10:00Z"}`,
			func(m *Meta) { sentAt("10:10:00")(m); m.Clock.Ahead = 10 * time.Minute }, "10:10:00.000"},
		{"an event that happens after its sending and after now is now", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T10:30:00Z"}`, sentAt("10:00:00"), "10:00:00.000"},
		{"a time of the future is now where nobody says when it was sent", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2099-01-15T09:00:00Z"}`, nil, "10:00:00.000"},
		{"within the bound it is kept", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T10:01:00Z"}`, nil, "10:01:00.000"},
		{"a native import keeps its time", Native, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T01:02:03.4567Z"}`,
			func(m *Meta) { m.Import = true; sentAt("09:30:00")(m) }, "01:02:03.456"},
		{"what the ingest API has decided stays", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2099-01-15T09:00:00Z"}`,
			func(m *Meta) { m.At = now.Add(-time.Hour) }, "09:00:00.000"},

		{"a PostHog event's own time of sending will do", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","sent_at":"2026-01-15T09:30:00Z"}`, nil, "09:59:50.000"},
		{"a time of sending that cannot be read is none", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","sent_at":"soon"}`, nil, "09:29:50.000"},
		{"$ignore_sent_at forbids the correction", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","properties":{"$ignore_sent_at":true}}`, sentAt("09:30:00"), "09:29:50.000"},
		{"so does disable_skew_correction", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T09:29:50Z","options":{"disable_skew_correction":true}}`, sentAt("09:30:00"), "09:29:50.000"},
		{"an offset is the event's age", PostHog, `{"event":"a","distinct_id":"u","offset":1500}`, nil, "09:59:58.500"},
		{"an offset that is none is ignored", PostHog, `{"event":"a","distinct_id":"u","offset":-5}`, nil, "10:00:00.000"},
		{"a time goes before an offset", PostHog, `{"event":"a","distinct_id":"u","offset":1500,"timestamp":"2026-01-15T09:00:00Z"}`, nil, "09:00:00.000"},
		{"a PostHog import keeps its time", PostHog, `{"event":"a","distinct_id":"u","timestamp":"2026-01-15T23:00:00Z"}`,
			func(m *Meta) { m.Import = true; sentAt("09:30:00")(m) }, "2026-01-15 23:00:00"},
		{"clocks far apart do not overflow", PostHog, `{"event":"a","distinct_id":"u","timestamp":"0002-01-01T00:00:00Z","sent_at":"9999-12-31T23:59:59Z"}`, nil, "2021-01-01"},
		{"Unix milliseconds are a PostHog time too", PostHog, `{"event":"a","distinct_id":"u","timestamp":1768469390000}`, nil, "09:29:50.000"},

		{"a Segment time is corrected", Segment, `{"type":"track","event":"a","userId":"u","timestamp":"2026-01-15T09:29:50Z","sentAt":"2026-01-15T09:30:00Z"}`, nil, "09:59:50.000"},
		{"the original Segment time goes first", Segment, `{"type":"track","event":"a","userId":"u","timestamp":"2026-01-15T01:00:00Z","originalTimestamp":"2026-01-15T09:29:50Z","sentAt":"2026-01-15T09:30:00Z"}`, nil, "09:59:50.000"},
		{"a Segment import keeps its time", Segment, `{"type":"track","event":"a","userId":"u","timestamp":"2025-01-15T09:29:50Z","sentAt":"2026-01-15T09:30:00Z"}`,
			func(m *Meta) { m.Import = true }, "2025-01-15"},
		{"a CloudEvent keeps its time", CloudEvents, `{"specversion":"1.0","id":"1","source":"s","type":"a","subject":"u","time":"2026-01-15T09:29:50.5+00:00"}`, nil, "09:29:50.500"},
		{"a CloudEvent without one is now", CloudEvents, `{"specversion":"1.0","id":"1","source":"s","type":"a","subject":"u"}`, nil, "10:00:00.000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := endpoint(c.format)
			if c.edit != nil {
				c.edit(&m)
			}
			e := decoded(t, m, c.raw)
			if got := e.Timestamp.Format("2006-01-02 15:04:05.000"); !strings.Contains(got, c.want) {
				t.Errorf("time %s; want %s", got, c.want)
			}
		})
	}
	m := endpoint(Native)
	m.Import = true
	refusal(t, Decode(&m, []byte(`{"event":"a","distinct_id":"u"}`), new(Event)))
}

func TestTimesOfOneRequest(t *testing.T) {
	for _, c := range []struct {
		name, times, want string // in seconds from now
	}{
		{"what is past stays", "-10 -5 -7", "-10 -5 -7"},
		{"what is a little ahead stays", "-10 60", "-10 60"},
		{"a fast clock keeps the differences", "3600 3605 3601", "-5 0 -4"},
		{"so it does by years", "2000000000 2000000007", "-7 0"},
		{"a single time of the future is now, and drags nobody along", "-10 3600 -5", "-10 0 -5"},
		{"nobody is later than it then", "-10 3600 30 7200", "-10 0 0 0"},
		{"centuries do not overflow", "-50000000000 3600 200000000000", "-159012000 0 0"},
		{"also where all are ahead", "3600 200000000000", "0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var times []Timing
			for _, s := range strings.Fields(c.times) {
				n, _ := strconv.ParseInt(s, 10, 64)
				at := time.Unix(now.Unix()+n, 0)
				times = append(times, Timing{known: true, At: at, given: at, sent: now})
			}
			Clock{}.Together(times, now)
			var got []string
			for i, t := range times {
				got = append(got, strconv.FormatInt(t.At.Unix()-now.Unix(), 10))
				for _, o := range times[:i] {
					if o.At.Equal(t.At) && o.Order >= t.Order {
						t.Order = 0
					}
				}
				if t.Order == 0 {
					got = append(got, "without order")
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s became %s, want %s", c.times, s, c.want)
			}
		})
	}
}

// TestOrderOfOneClient sends events of one client over a line with latency and retries. The
// stored times are the client's, and for equal times Order is in its order, although its
// requests may be sent and arrive in any other.
func TestOrderOfOneClient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := time.Duration(rapid.Int64Range(-60_000, 100_000).Draw(t, "the clock's error")) * time.Millisecond
		clock := now.Add(-off)
		var all []Timing
		for range rapid.IntRange(2, 6).Draw(t, "requests") {
			m, first := endpoint(PostHog), clock
			var request []Timing
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				clock = clock.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "half milliseconds")) * 500 * time.Microsecond)
				request = append(request, Timing{given: clock})
			}
			if clock.Sub(first) < time.Millisecond { // requests without extent can only be told apart by when they were sent
				clock = first.Add(time.Millisecond)
				request = append(request, Timing{given: clock})
			}
			m.Sent = clock.Add(time.Duration(rapid.IntRange(0, 50_000).Draw(t, "until it is sent")) * time.Millisecond)
			m.Received = m.Sent.Add(off + time.Duration(rapid.IntRange(0, 100_000).Draw(t, "latency and retries"))*time.Millisecond)
			for i := range request {
				var e Event
				given := request[i].given
				raw := fmt.Sprintf(`{"event":"a","distinct_id":"u","timestamp":%q}`, given.Format("2006-01-02T15:04:05.000000Z"))
				if err := Decode(&m, []byte(raw), &e); err != nil {
					t.Fatal(err)
				}
				if request[i] = e.Timing(); !request[i].At.Equal(rounded(given)) {
					t.Fatalf("%v was moved to %v", given, request[i].At)
				}
			}
			m.Clock.Together(request, m.Received)
			all = append(all, request...)
		}
		for i := range all[1:] {
			if a, b := all[i], all[i+1]; b.At.Before(a.At) || b.At.Equal(a.At) && b.Order <= a.Order {
				t.Fatalf("event %d is at %v, %x, the next at %v, %x", i, a.At, a.Order, b.At, b.Order)
			}
		}
	})
}
