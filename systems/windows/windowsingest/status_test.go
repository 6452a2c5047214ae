package windowsingest

import (
	"strconv"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

func TestWhatIsKnownOfABatchID(t *testing.T) {
	each(t, func(t *testing.T, d *testEndpoint) {
		get := func(id string, code int, body string) {
			t.Helper()
			want(t, d.ask("GET", Path+"/"+id, "", nil), code, body)
		}
		first := strconv.FormatInt(today.UnixMilli(), 10)
		get(batch, 404, "not_found")
		want(t, d.post("["+event(1)+","+event(2)+"]"), 202, counted(2, 0))
		d.pass(90 * time.Second)
		get(batch, 200, `{"batch":"20250323151500","records":2,"states":{"active":1},"windows":[`+
			`{"id":"20250323151500/`+first+`","revision":`+first+`,"state":"active","records":2,"bytes":68,"ageSeconds":90,"openedAt":"2026-11-21T19:00:20Z","dueAt":"2026-11-21T19:01:20Z","failedTries":0}]}`)
		if _, err := d.windows.CloseNow(t.Context(), of("club", batch)); err != nil {
			t.Fatal(err)
		}
		want(t, d.ask("POST", Path+"/mentions", mention(1, 1), nil), 202, counted(1, 0))
		source := d.windows.Open()
		m := []*tidemill.Message{{}}
		if n, err := source.Receive(t.Context(), m); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		ends := []tidemill.Settlement{{ID: m[0].ID, Mark: m[0].Mark, End: tidemill.Done, Fate: tidemill.Dead, Kind: tidemill.Partner, Cause: "inner words"}}
		if err := source.Settle(t.Context(), ends); err != nil {
			t.Fatal(err)
		}
		second := strconv.FormatInt(today.Add(90*time.Second).UnixMilli(), 10)
		get(batch, 200, `{"batch":"20250323151500","records":3,"states":{"active":1,"parked":1},"windows":[`+
			`{"id":"20250323151500/`+first+`","revision":`+first+`,"state":"parked","records":2,"bytes":68,"ageSeconds":90,"openedAt":"2026-11-21T19:00:20Z","closedAt":"2026-11-21T19:01:50Z","closedBy":"hand",`+
			`"failedTries":1,"failedAt":"2026-11-21T19:01:50Z","reason":"partner_error"},`+
			`{"id":"20250323151500/`+second+`","revision":`+second+`,"state":"active","records":1,"bytes":78,"ageSeconds":0,"openedAt":"2026-11-21T19:01:50Z","dueAt":"2026-11-21T19:02:50Z","failedTries":0}]}`)
		d.ask("POST", Path+"/events", event(1), header{"X-Batch-ID": "a/b c"})
		d.ask("POST", Path+"/events", event(1), header{"X-Batch-ID": "files"})
		for _, path := range []string{"a%2Fb%20c", "a/b%20c", "files"} {
			if w := d.ask("GET", Path+"/"+path, "", nil); w.Code != 200 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		for _, wrong := range []string{"other", "%00", "%ff", "events"} {
			get(wrong, 404, "not_found")
		}
		d.idle()
	})
}

func TestOfManyWindowsTheOldestAreShown(t *testing.T) {
	d := newEndpoint(t)
	for range maxWindows + 5 {
		want(t, d.post(event(1)), 202, counted(1, 0))
		if _, err := d.windows.CloseNow(t.Context(), of("club", batch)); err != nil {
			t.Fatal(err)
		}
	}
	w := d.ask("GET", Path+"/"+batch, "", nil)
	says(t, w, `"records":100,"states":{"ready":100},`)
	says(t, w, `}],"more":true}`)
}

func TestServes(t *testing.T) {
	for path, want := range map[string]bool{Path: true, Path + "/events": true, Path + "/a/b": true, "/v1/windowsill": false, "/v1/events": false, "/": false} {
		if Serves(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
