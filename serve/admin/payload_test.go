package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// payloads is a desk with a dead letter and a job whose payloads are the same bytes.
func payloads(t *testing.T, payload string) (*desk, deadletter.Store) {
	t.Helper()
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queues := memoryqueue.New(memoryqueue.Options{})
	m := &tidemill.Message{ID: `a/"b` + "\n", Tenant: "shop", To: "ours", Payload: []byte(payload)}
	if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "ours", At: day, Message: m}}); err != nil {
		t.Fatal(err)
	}
	if err := queues.Add(t.Context(), []*tidemill.Message{m}, nil); err != nil {
		t.Fatal(err)
	}
	return newDesk(t, admin.Parts{Letters: letters, Common: &answer.Common{Queues: queues}, Systems: []admin.System{{Name: "analytics"}}}), letters
}

const jobPayload = "queues/ours/job/payload?tenant=shop&id=a%2F%22b%0A"

func TestAPayloadIsAnsweredByteForByte(t *testing.T) {
	const raw = "{\"n\": 1.10,\r\n \"n\":2, \"t\":\"\xff\x00\"}\r\n"
	d, _ := payloads(t, raw)
	for _, at := range []string{"dead/1/payload", "dead/1/original", jobPayload} {
		w := d.ask(http.MethodGet, at, "")
		h := w.Header()
		if got := d.good(w); got != raw {
			t.Errorf("%s is answered with %q, want %q", at, got, raw)
		}
		if h.Get("Content-Type") != operation.PayloadType || h.Get("Content-Security-Policy") != "sandbox" || !strings.HasPrefix(h.Get("Content-Disposition"), `attachment; filename="payload-a__b_`) || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s is answered with %v: a browser may show it", at, h)
		}
		if w := d.headed(http.MethodGet, at, "", http.Header{operation.IfNoneMatch: {h.Get("ETag")}}); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s is answered %d again", at, w.Code)
		}
	}
	for _, at := range []string{"dead/1/payload", jobPayload} {
		tag := d.ask(http.MethodGet, at, "").Header().Get("ETag")
		const mended = "mended\r\n"
		d.good(d.change(at, mended, tag))
		refused(t, d.change(at, "late", tag), http.StatusPreconditionFailed, "since")
		refused(t, d.change(at, "unread"), http.StatusPreconditionRequired, "If-Match")
		if got := d.get(at); got != mended {
			t.Errorf("%s is %q after an edit, want %q", at, got, mended)
		}
	}
	if got := d.get("dead/1/original"); got != raw {
		t.Errorf("the original is %q after an edit", got)
	}
	refused(t, d.ask(http.MethodGet, "dead/7/payload", ""), http.StatusNotFound, "no dead letter 7")
	w := d.ask(http.MethodDelete, "dead/1/payload", "")
	if refused(t, w, http.StatusMethodNotAllowed, "use GET or PUT"); w.Header().Get("Allow") != "GET, PUT" {
		t.Errorf("allowed is %q", w.Header().Get("Allow"))
	}
}

// A body that somebody forgot to send is no empty payload, which is one if that is said.
func TestAnEmptyPayloadIsSaid(t *testing.T) {
	d, letters := payloads(t, "full")
	for at, and := range map[string]string{"dead/1/payload": "?", jobPayload: "&"} {
		refused(t, d.ask(http.MethodPut, at, ""), http.StatusBadRequest, "say empty=true")
		refused(t, d.ask(http.MethodPut, at+and+"empty=true", "full"), http.StatusBadRequest, "leave one out")
		if got := d.get(at); got != "full" {
			t.Errorf("%s is %q after what was refused", at, got)
		}
		d.put(at+and+"empty=true", "")
		if got := d.get(at); got != "" {
			t.Errorf("%s is %q, which was to be empty", at, got)
		}
	}
	if got := d.get("dead/1/original"); got != "full" {
		t.Errorf("the original is %q after an edit", got)
	}
	d.put("dead/1/payload", "full again")
	if got := d.get("dead/1/payload"); got != "full again" {
		t.Errorf("the payload is %q", got)
	}
	for l, err := range letters.List(t.Context(), deadletter.Filter{}) {
		if err != nil || string(l.Original) != "full" || l.Edited.IsZero() {
			t.Errorf("the dead letter is %+v, %v", l, err)
		}
	}
}

// What a system cannot decode it refuses by itself, an empty payload like any other.
func TestAnEmptyPayloadIsRefusedByWhoCannotReadIt(t *testing.T) {
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "ours", At: day, Message: &tidemill.Message{ID: "a", Payload: []byte("full")}}}); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, admin.Parts{Letters: letters, Owners: []admin.Owner{{System: "analytics", Owns: func(string) bool { return true }}}, Systems: []admin.System{{Name: "analytics", Decodes: func(_ string, m *tidemill.Message) error {
		if len(m.Payload) == 0 {
			return errors.New("it is no event")
		}
		return nil
	}}}})
	refused(t, d.ask(http.MethodPut, "dead/1/payload?empty=true", ""), http.StatusUnprocessableEntity, "it is no event")
}

func TestAPayloadThatIsCoveredIsNotAnsweredInBytes(t *testing.T) {
	d, _ := payloads(t, `{"email":"ann@example.com"}`)
	for _, at := range []string{"dead/1/payload", "dead/1/original", jobPayload} {
		w, r := httptest.NewRecorder(), request(http.MethodGet, admin.Prefix+at, "")
		d.api.Inside().ServeHTTP(w, r.WithContext(caller.With(r.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Viewer)})))
		if refused(t, w, http.StatusForbidden, "covered for ada"); w.Header().Get("ETag") != "" {
			t.Errorf("%s tells an ETag, by which a payload can be guessed", at)
		}
	}
}

// deadOf puts dead letters of causes and payloads, in this order.
func deadOf(t *testing.T, s deadletter.Store, all ...[2]string) {
	t.Helper()
	for i, one := range all {
		m := &tidemill.Message{ID: string(rune('a' + i)), Payload: []byte(one[1])}
		if err := s.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "p", Message: m, Kind: tidemill.Partner, Cause: one[0], At: day}}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeadLettersAreFoundByCauseAndText(t *testing.T) {
	s := lettersOf(t)
	deadOf(t, s, [2]string{"answered 500", "one"}, [2]string{"no route", "two"}, [2]string{"answered 503", "one more"}, [2]string{"no route to one", "three"})
	d := newDesk(t, admin.Parts{Letters: s, Systems: []admin.System{{Name: "delivery"}}})
	for query, want := range map[string]string{
		"cause=answered+%23": "a c", "cause=answered+500": "a c", "cause=no+route": "b", "cause=answered": "",
		"pipeline=p&text=one": "a c d", "pipeline=p&text=500": "a", "pipeline=p&text=e+m": "c", "system=delivery&text=three": "d", "cause=answered+%23&text=more": "c", "pipeline=p&text=none": "",
		"pipeline=p&text=one&order=newest": "d c a", "pipeline=p&text=one&format=export": "a c d",
	} {
		var ids []string
		for _, line := range lines(d.get("dead?" + query)) {
			ids = append(ids, d.field(line, "id").(string))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	if got := d.pages("dead?pipeline=p&text=one&limit=2", func() {}); !slices.Equal(got, []string{"a c", "d"}) {
		t.Errorf("the pages are %q", got)
	}
	d.thereAndBack("dead?pipeline=p&text=one&limit=1")
	refused(t, d.ask(http.MethodGet, "dead?text=one", ""), http.StatusBadRequest, "say where to look")
	refused(t, d.ask(http.MethodGet, "dead?pipeline=p&text=one&limit=5&count=bounded", ""), http.StatusBadRequest, "is not counted")
	if got := lines(d.viewer("dead?pipeline=p&text=one&max=9")); len(got) != 1 || d.field(got[0], "id") != "d" {
		t.Errorf("who may not see payloads finds by their text: %s", got)
	}
	if got := d.post("dead/delete?cause=answered+%23", ""); d.field(got, "count") != 2.0 {
		t.Errorf("discarded by cause: %s", got)
	}
	if got := lines(d.get("dead")); len(got) != 2 {
		t.Errorf("%d are left, want those of other causes", len(got))
	}
}

// A page of what few have ends early, and says where it goes on.
func TestATextThatFewHaveIsLookedForInSteps(t *testing.T) {
	s := lettersOf(t)
	var all []tidemill.DeadLetter
	for i := range 10_500 {
		payload := "x"
		if i == 10_400 {
			payload = "needle"
		}
		all = append(all, tidemill.DeadLetter{Pipeline: "p", Message: &tidemill.Message{ID: "m" + strings.Repeat("i", i%7) + time.Duration(i).String(), Payload: []byte(payload)}, Kind: tidemill.Partner, Cause: "refused", At: day})
	}
	for part := range slices.Chunk(all, 1000) {
		if err := s.Put(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now() // which stands still: a page ends after so many, and not after a time
	d := newDesk(t, admin.Parts{Letters: s, Now: func() time.Time { return now }})
	found, looked, cursor := 0, 0, ""
	for pages := 0; ; pages++ {
		_, p := d.onePage("dead?pipeline=p&text=needle&limit=50" + cursor)
		found, looked = found+len(p.Items), looked+p.Looked
		if p.Looked > 10_000 {
			t.Fatalf("one page looked at %d", p.Looked)
		}
		if p.Next == "" {
			if found != 1 || looked != 10_000 || pages != 1 {
				t.Errorf("%d found on %d pages that looked at %d", found, pages+1, looked)
			}
			break
		}
		cursor = "&cursor=" + p.Next
	}
	if got := lines(d.get("dead?pipeline=p&text=needle")); len(got) != 1 {
		t.Errorf("%d lines, want one", len(got))
	}
}
