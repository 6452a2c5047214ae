package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// marker stands in payloads, headers and properties, and nowhere else.
const marker = "m4rk3r"

// ofRole reads as somebody of a role who may not see payloads.
func (d *desk) ofRole(role caller.Role, path string) *httptest.ResponseRecorder {
	d.Helper()
	w, r := httptest.NewRecorder(), request(http.MethodGet, admin.Prefix+path, "")
	d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: caller.All(role)})))
	asDescribed(d.T, r, w)
	return w
}

func (d *desk) viewer(path string) string {
	d.Helper()
	return d.good(d.ofRole(caller.Viewer, path))
}

// covered wants a marker to be shown to who may see it, and to nobody else.
func (d *desk) covered(marker string, paths ...string) {
	d.Helper()
	for _, path := range paths {
		if whole := d.get(path); !strings.Contains(whole, marker) {
			d.Errorf("%s does not show it to who may see it: %s", path, whole)
		}
		if shown := d.good(d.ofRole(caller.Operator, path)); strings.Contains(shown, marker) || shown == "" {
			d.Errorf("%s shows it to who may not see it: %s", path, shown)
		}
		if shown := d.ofRole(caller.Viewer, path).Body.String(); strings.Contains(shown, marker) { // or it is refused, as an export
			d.Errorf("%s shows it to a viewer: %s", path, shown)
		}
	}
}

func TestPayloadsOfDeadLettersAreCovered(t *testing.T) {
	d, s := dead(t)
	m := &tidemill.Message{ID: "e9", Tenant: "shop", To: "s2s.dv360", Payload: []byte(`{"email": "` + marker + `"}`), Header: []tidemill.Field{{Name: []byte("cookie"), Value: []byte(marker)}}, Mark: tidemill.Mark{Lo: 9}}
	if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "s2s.dv360", Message: m, Kind: tidemill.Partner, Cause: "it failed", Tries: 1, At: day, Row: []byte(`{"status":503,"body":"` + marker + `"}`)}}); err != nil {
		t.Fatal(err)
	}
	d.covered(marker, "dead/6", "dead?format=export", "dead?format=export&limit=10")
	d.put("dead/6/payload", `{"email": "`+marker+`", "edited": true}`)
	d.covered(marker, "dead/6", "dead?format=export")
	if shown := d.viewer("dead/6"); !strings.Contains(shown, `"payload":"{\"email\":\"(text)\",\"edited\":\"(true or false)\"}"`) || !strings.Contains(shown, `{"name":"cookie","value":"(text)"}`) {
		t.Errorf("names and types are not shown: %s", shown)
	}
	d.viewer("dead?limit=10")
}

func TestPayloadsOfJobsAreCovered(t *testing.T) {
	d, s := queues(t)
	m := &tidemill.Message{To: "q", ID: "marked", Tenant: "shop", Payload: []byte(marker), Header: []tidemill.Field{{Name: []byte("cookie"), Value: []byte(marker)}}}
	if err := s.Add(t.Context(), []*tidemill.Message{m}, nil); err != nil {
		t.Fatal(err)
	}
	d.covered(marker, "queues/q/job?id=marked")
	d.viewer("queues/q/jobs")
}

func TestWhatCRMKnowsOfPeopleIsCovered(t *testing.T) {
	withCRM(t, func(d *crmDesk) {
		d.send(strings.Replace(crmEvent("a", "member.created"), `"identity"`, `"payload":{"note":"`+marker+`"},"identity"`, 1))
		pass(time.Second)
		d.covered(marker, "crm/log?payload=true", "crm/events?tenant=club&id=a")
		d.covered("ann@example.com", "crm/profiles?tenant=club&email=ann@example.com", "crm/log?payload=true")
		for grant, shown := range map[string]bool{"operator:crm": true, "viewer operator:crm": true, "viewer:crm operator:delivery": false} {
			rights, err := caller.ParseRights(grant)
			if err != nil {
				d.Fatal(err)
			}
			for _, path := range []string{"crm/log?payload=true&max=10", "crm/log?payload=true&limit=10", "crm/events?tenant=club&id=a"} {
				w, r := httptest.NewRecorder(), request(http.MethodGet, admin.Prefix+path, "")
				d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: rights, Payloads: true})))
				if text := d.good(w); strings.Contains(text, marker) != shown {
					d.Errorf("%s shows to %s: %s", path, grant, text)
				}
			}
		}
	})
}

func TestPropertiesOfEventsAndPersonsAreCovered(t *testing.T) {
	in := start(t, func(c *config.Loaded) { c.Console.Cover = []string{"properties.card"} })
	if w := in.post("events?project=shop", `{"event_id":"0190f3c2-7d1a-7c3e-8f4b-1c2d3e4f5a6b","event":"bought","distinct_id":"u1","properties":{"note":"`+marker+`","card":"c4rd","$set":{"name":"`+marker+`"}}}`); w.Code != 200 {
		t.Fatal(w.Body)
	}
	made := new(api.MadeToken)
	if err := json.Unmarshal(in.post("tokens?name=viewer&role=viewer", "").Body.Bytes(), made); err != nil {
		t.Fatal(err)
	}
	as := func(token, path string) string {
		for range 200 { // until it is stored
			r := request(http.MethodGet, admin.Prefix+path, "")
			r.Header.Set("Authorization", "Bearer "+token)
			if w := in.do(r); w.Code == 200 && strings.Contains(w.Body.String(), "note") || strings.Contains(w.Body.String(), "is_identified") {
				return w.Body.String()
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%s shows nothing", path)
		return ""
	}
	for _, path := range []string{"events?project=shop&max=9", "persons?project=shop&distinct_id=u1"} {
		whole, shown := as(token, path), as(made.Secret, path)
		if !strings.Contains(whole, marker) || strings.Contains(whole, "c4rd") {
			t.Errorf("%s shows to an admin %s", path, whole)
		}
		if strings.Contains(shown, marker) || strings.Contains(shown, "c4rd") || !strings.Contains(shown, "(text)") {
			t.Errorf("%s shows to a viewer %s", path, shown)
		}
	}
}

// personal are names of members that hold what senders sent.
var personal = []string{"payload", "payload_base64", "original_payload", "original_payload_base64", "originalPayload", "originalPayloadBase64", "editedPayload", "editedPayloadBase64",
	"properties", "attributes", "value", "value_base64", "document", "row", "answer", "body", "bodyBase64"}

func TestWhatSendersSentIsTaggedInEveryAnswer(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(op string, of reflect.Type)
	walk = func(op string, of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		if f, ok := reflect.Zero(of).Interface().(interface{ Form() reflect.Type }); ok {
			walk(op, f.Form())
			return
		}
		if f, ok := reflect.Zero(of).Interface().(interface{ OneOf() []any }); ok {
			for _, one := range f.OneOf() {
				walk(op, reflect.TypeOf(one))
			}
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(op, of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				f := of.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if slices.Contains(personal, name) && f.Type.Kind() != reflect.Int && f.Tag.Get("covered") == "" { // a number is a count
					t.Errorf("%s answers with %v.%s, which is not tagged covered", op, of, f.Name)
				}
				if f.Tag.Get("covered") != "" && !slices.Contains(config.CoverRoots, f.Tag.Get("covered")) {
					t.Errorf("console.cover has no %s, as which %v.%s is covered", f.Tag.Get("covered"), of, f.Name)
				}
				if f.IsExported() && f.Tag.Get("json") != "-" {
					walk(op, f.Type)
				}
			}
		}
	}
	for _, h := range newDesk(t, admin.Parts{}).api.Operations() {
		walk(h.ID, h.Gives)
	}
	if len(seen) < 30 {
		t.Errorf("only %d types were looked at: %s", len(seen), fmt.Sprint(seen))
	}
}

// TestWhatIsCoveredIsNotWrittenBack edits a dead letter and a job as they are shown.
func TestWhatIsCoveredIsNotWrittenBack(t *testing.T) {
	const payload, shown = `{"email":"ann@example.com","n":1}`, `{"email":"(text)","n":2}`
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queues := memoryqueue.New(memoryqueue.Options{})
	m := &tidemill.Message{ID: "a", Tenant: "shop", To: "ours", Payload: []byte(payload)}
	if err := errors.Join(letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "ours", At: day, Message: m}}), queues.Add(t.Context(), []*tidemill.Message{m}, nil)); err != nil {
		t.Fatal(err)
	}
	cfg := loaded(t)
	cfg.Console.Cover = []string{"payload.email"}
	d := newDesk(t, admin.Parts{Letters: letters, Config: constant(cfg), Common: &answer.Common{Queues: queues}, Systems: []admin.System{{Name: "analytics"}}})
	for at, edit := range map[string]string{"dead/1": "dead/1/payload", "queues/ours/job?id=a&tenant=shop": "queues/ours/job/payload?id=a&tenant=shop"} {
		if got := d.get(at); !strings.Contains(got, `(text)`) || !strings.Contains(got, `"covered":true`) {
			t.Errorf("%s does not say that its payload is covered: %s", at, got)
		}
		refused(t, d.ask(http.MethodPut, edit, shown), http.StatusUnprocessableEntity, `"(text)" where its value is covered for you`)
		d.put(edit, `{"email":"bob@example.com","n":2,"note":"(text)"}`)
	}
	for l, err := range letters.List(t.Context(), deadletter.Filter{}) {
		if err != nil || string(l.Payload) != `{"email":"bob@example.com","n":2,"note":"(text)"}` {
			t.Errorf("%s, %v", l.Payload, err)
		}
	}
	whole := newDesk(t, admin.Parts{Letters: letters, Config: constant(loaded(t)), Systems: []admin.System{{Name: "analytics"}}})
	if got := whole.get("dead/1"); strings.Contains(got, "covered") {
		t.Errorf("nothing is covered, and it says %s", got)
	}
	whole.put("dead/1/payload", shown)
}

// TestAnETagDoesNotTellWhatIsCovered guesses the payload of a dead letter and of a job, as somebody who
// may edit them and not see them.
func TestAnETagDoesNotTellWhatIsCovered(t *testing.T) {
	const secret = `{"pin":"4711"}`
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queues := memoryqueue.New(memoryqueue.Options{})
	m := &tidemill.Message{ID: "a", Tenant: "shop", To: "ours", Payload: []byte(secret)}
	if err := errors.Join(letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "ours", At: day, Message: m}}), queues.Add(t.Context(), []*tidemill.Message{m}, nil)); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, admin.Parts{Letters: letters, Common: &answer.Common{Queues: queues}, Systems: []admin.System{{Name: "analytics"}}})
	ask := func(method, path, body, match string, payloads bool) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, body)
		if match != "" {
			r.Header.Set("If-Match", match)
		}
		d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Admin), Payloads: payloads})))
		return w
	}
	for _, at := range []string{"dead/1", "queues/ours/job?id=a&tenant=shop"} {
		edit := strings.Replace(strings.Replace(at, "/job", "/job/payload", 1), "dead/1", "dead/1/payload", 1)
		blind, whole := ask(http.MethodGet, at, "", "", false), ask(http.MethodGet, at, "", "", true)
		shown, real := versionIn(blind), versionIn(whole)
		if shown == real || !strings.Contains(blind.Body.String(), `"etag":`+shown) || strings.Contains(blind.Body.String(), strings.Trim(real, `"`)) {
			t.Errorf("%s: the ETag is %s for who may not see the payload, and %s for who may: %s", at, shown, real, blind.Body)
		}
		for _, guessed := range []string{real, `"none"`} { // made of a guess that is right; with a right guess as body
			if w := ask(http.MethodPut, edit, secret, guessed, false); w.Code != http.StatusPreconditionFailed {
				t.Errorf("%s: a guess of the payload with the ETag %s is answered by %d %s", at, guessed, w.Code, w.Body)
			}
		}
		if w := ask(http.MethodPut, edit, `{"pin":"0815"}`, shown, false); w.Code != http.StatusOK {
			t.Errorf("%s: an edit of what was shown is answered by %d %s", at, w.Code, w.Body)
		}
		if now := versionIn(ask(http.MethodGet, at, "", "", false)); now != shown {
			t.Errorf("%s: another payload that is shown alike has the ETag %s, before %s", at, now, shown)
		}
		if w := ask(http.MethodPut, edit, `{"pin":1}`, shown, false); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", at, w.Code, w.Body)
		}
		if w := ask(http.MethodPut, edit, `{"pin":2}`, shown, false); w.Code != http.StatusPreconditionFailed {
			t.Errorf("%s: an edit of what is shown otherwise now is answered by %d %s", at, w.Code, w.Body)
		}
	}
}
