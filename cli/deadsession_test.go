package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
)

func TestASessionAboutDeadLetters(t *testing.T) {
	s := newSession(t)
	route := letter("e9")
	route.Pipeline, route.Kind, route.At = "route.high", tidemill.Validation, day.Add(time.Hour)
	s.die(letter("e1/dv360"), route)
	s.types("dead list --partner dv360 --reason timeout --site shop --until 2026-03-01T12:30:00Z --since 2026-03-01T11:30:00Z", `
ID        DIED                  KIND     STATE  REPLAYS  EVENT     CAUSE
e1/dv360  2026-03-01T12:00:00Z  timeout  held   0        purchase  no answer
`)
	s.types("dead list --reason rate_limit", "No dead letters.")
	s.types("dead list --since 1h", "No dead letters.")
	s.types("dead show e1/dv360", `
number    1, held
message   e1/dv360
pipeline  s2s.dv360
site      shop
event     purchase
reason    timeout
replays   0
tried     2026-03-01T11:59:00Z  partner_error  answered 502`+"<U+001B>"+`[2J
failed    2026-03-01T12:00:00Z  timeout  no answer
answer    504 `+"<U+001B>"+`[2Jlate
  gpc = 1

{"a":`+"<U+001B>"+`1}
`)
	if _, out, _ := s.run(t.Context(), "", "dead show 1 --payload"); out != "{\"a\":\x1b1}" {
		t.Errorf("the payload into a pipe is %q, want it byte for byte", out)
	}
	file := filepath.Join(t.TempDir(), "event.json")
	if err := os.WriteFile(file, []byte("{\"a\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.types("dead edit 1 "+file, "Dead letter 1 is edited: 8 bytes. `tidemill dead replay --seq 1` sends it.")
	if status, out, errs := s.run(t.Context(), `{"a":3}`, "dead edit e1/dv360 --json"); status != 0 || !strings.Contains(out, `"payload":"{\"a\":3}"`) {
		t.Errorf("an edit from standard input: %d %s%s", status, out, errs)
	}
	s.fails("dead edit 1", "--empty says that it is to be so")
	if status, _, errs := s.run(t.Context(), "", "dead edit 1 --empty "+file); status == 0 || !strings.Contains(errs, "contradict each other") {
		t.Errorf("an empty payload and a file: %d %s", status, errs)
	}
	s.types("dead edit 1 --empty", "Dead letter 1 is edited: 0 bytes. `tidemill dead replay --seq 1` sends it.")
	if _, out, _ := s.run(t.Context(), "", "dead show 1 --payload"); out != "" {
		t.Errorf("the empty payload is %q", out)
	}
	if status, out, errs := s.run(t.Context(), `{"a":3}`, "dead edit 1"); status != 0 {
		t.Errorf("an edit of an empty payload: %d %s%s", status, out, errs)
	}
	s.fails("dead edit 1 --pipeline s2s.yahoo "+file, "there is no dead letter 1 of pipeline s2s.yahoo")
	s.fails("dead show 1 --pipeline s2s.yahoo", "there is no dead letter 1 of pipeline s2s.yahoo")
	lines := letter("e3/yahoo")
	lines.Pipeline, lines.Row = "s2s.yahoo", []byte(`{"status":400,"body":"{\r\n\t\"error\": \"no pixel\u001b\"\n}\n"}`)
	s.die(lines)
	if _, out, _ := s.run(t.Context(), "", "dead show e3/yahoo --pipeline s2s.yahoo"); !strings.Contains(out, "\nanswer    400 {\n              \"error\": \"no pixel<U+001B>\"\n          }\n") {
		t.Errorf("an answer of several lines is shown as\n%s", out)
	}
	s.fails("dead edit 7 "+file, "there is no dead letter 7")
	s.types("dead show 1", `
number    1, held
message   e1/dv360
pipeline  s2s.dv360
site      shop
event     purchase
reason    timeout
replays   0
tried     2026-03-01T11:59:00Z  partner_error  answered 502`+"<U+001B>"+`[2J
failed    2026-03-01T12:00:00Z  timeout  no answer
answer    504 `+"<U+001B>"+`[2Jlate
edited    2026-03-01T12:00:00Z
  gpc = 1

as received:
{"a":`+"<U+001B>"+`1}

as edited:
{"a":3}
`)
	if _, out, _ := s.run(t.Context(), "", "dead show 1 --original"); out != "{\"a\":\x1b1}" {
		t.Errorf("the original into a pipe is %q, want it byte for byte", out)
	}
	s.types("dead export --partner dv360", `{"originalPayload":"{\"a\":\u001b1}","error":"no answer","attempts":2,"firstFailure":"2026-03-01T11:59:00Z","lastFailure":"2026-03-01T12:00:00Z",`+
		`"queue":"s2s.dv360","reason":"timeout","id":"e1/dv360","kind":"timeout","partner":"dv360","site":"shop","editedPayload":"{\"a\":3}","response":{"status":504,"body":"\u001b[2Jlate"}}`)
	s.types("dead replay --seq 1 --dry-run", "Would replay 1 dead letter.")
	s.types("dead replay --seq 1", "Replaying 1 dead letter.")
	s.types("dead list --state replaying --json", `~\{"seq":1,.*`)
	s.types("dead delete --reason validation --json", `{"count":1}`)
}

func TestAReplayAtARateEndsWithWhatThereWasAtItsStart(t *testing.T) {
	s := newSession(t)
	for i := range 7 {
		s.die(letter(fmt.Sprint("e", i)))
	}
	late := letter("late")
	late.At = time.Now().Add(time.Hour) // as what fails again meanwhile
	s.die(late)
	if status, out, errs := s.run(t.Context(), "", "dead replay --all --rate 3/s --dry-run"); status != 0 || !strings.Contains(out, "\nmatches    7\n") || !strings.Contains(out, "\ntakes      2s\n") {
		t.Errorf("%d %s%s", status, out, errs)
	}
	var o api.Operation
	status, out, errs := s.run(t.Context(), "", "dead replay --partner dv360 --rate 100/s -n 4 --json")
	if err := json.Unmarshal([]byte(out), &o); err != nil || status != 0 || o.Changed != 4 || o.State != "done" {
		t.Errorf("the first four: %d %s%s", status, out, errs)
	}
	start := time.Now()
	if status, out, errs := s.run(t.Context(), "", "dead replay --all --rate 2/s"); status != 0 || !strings.Contains(out, "(dead.replay) is done: 3 changed of 3.") || !strings.Contains(errs, "tidemill operations start dead.replay --all --rate=2/s") {
		t.Errorf("the others: %d %s%s", status, out, errs)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("three at two a second took %v", took)
	}
	s.types("dead list --state held --json", `~.*"id":"late".*`)
	if _, out, _ := s.run(t.Context(), "", "dead replay --all --rate 2/s"); out != "Nothing matches: nothing was changed.\n" {
		t.Errorf("in the end %s", out)
	}
}

func TestAnOperationOutlivesItsCommandAndIsStopped(t *testing.T) {
	s := newSession(t)
	for i := range 5 {
		s.die(letter(fmt.Sprint("e", i)))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // Ctrl-C once the first has gone
		for ctx.Err() == nil {
			if n, err := s.letters.Count(ctx, deadletter.Filter{State: deadletter.Replaying}); err != nil || n > 0 {
				stop()
			}
		}
	}()
	if status, out, errs := s.run(ctx, "", "dead replay --all --rate 2/h"); status != 1 || out != "" || !strings.Contains(errs, "the operation goes on: `tidemill operations stop ") {
		t.Errorf("exit status %d, %s%s", status, out, errs)
	}
	_, out, _ := s.run(t.Context(), "", "operations list --state active --json")
	var o api.Operation
	if err := json.Unmarshal([]byte(out), &o); err != nil || o.Count != 5 || o.Rate != "2/h" {
		t.Fatalf("%v: %s", err, out)
	}
	if status, out, errs := s.run(t.Context(), "", "operations stop "+o.ID); status != 0 || !strings.Contains(out, "(dead.replay) is stopped: 1 changed of 5.") {
		t.Errorf("exit status %d, %s%s", status, out, errs)
	}
	if _, out, _ := s.run(t.Context(), "", "operations show "+o.ID); !strings.Contains(out, "\nstopped by  local\n") {
		t.Errorf("it is shown as %s", out)
	}
	if _, out, _ := s.run(t.Context(), "", "operations list"); !strings.Contains(out, o.ID+"  dead.replay  stopped  local") {
		t.Errorf("it is listed as %s", out)
	}
}

func TestNothingStartsWithoutAYes(t *testing.T) {
	s := newSession(t)
	for i := range 5 {
		s.die(letter(fmt.Sprint("e", i)))
	}
	for in, want := range map[string]string{"": "there was no answer", "n\n": "nothing was done"} {
		if status, _, errs := s.run(t.Context(), in, "operations start dead.delete --partner dv360"); status != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, "matches    5\n") {
			t.Errorf("exit status %d, %s", status, errs)
		}
	}
	s.types("operations list", "No operations.")
	if status, out, errs := s.run(t.Context(), "y\n", "operations start dead.delete --partner dv360 --detach"); status != 0 || !strings.Contains(out, "(dead.delete) is scheduled: 0 changed of 5.") {
		t.Errorf("exit status %d, %s%s", status, out, errs)
	}
}

func TestWhatIsExportedIsJSON(t *testing.T) {
	s := newSession(t)
	l := letter("e1/dv360")
	l.Message.Payload = []byte("\xff\x00")
	s.die(l)
	_, out, _ := s.run(t.Context(), "", "dead export")
	var got struct {
		Original string `json:"originalPayload"`
		Base64   []byte `json:"originalPayloadBase64"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Original != "" || string(got.Base64) != "\xff\x00" {
		t.Errorf("%v: %s", err, out)
	}
}
