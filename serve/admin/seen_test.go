package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
)

// change asks for a change of what has these ETags.
func (d *desk) change(path, body string, tags ...string) *httptest.ResponseRecorder {
	return d.headed(methodOf(path), path, body, http.Header{operation.IfMatch: tags})
}

// headed asks with headers.
func (d *desk) headed(method, path, body string, headers http.Header) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), request(method, admin.Prefix+path, body)
	for name, texts := range headers {
		r.Header[http.CanonicalHeaderKey(name)] = texts
	}
	d.api.ServeHTTP(w, r)
	asDescribed(d.T, r, w)
	return w
}

// tag is the ETag of what is read.
func (d *desk) tag(path string) string {
	d.Helper()
	w := d.ask(http.MethodGet, path, "")
	tag := versionIn(w)
	if d.good(w); tag != fmt.Sprintf("%q", d.field(w.Body.String(), "etag")) {
		d.Errorf("the ETag of %s is %s, its member etag %v", path, tag, d.field(w.Body.String(), "etag"))
	}
	if head := versionIn(d.ask(http.MethodHead, path, "")); head != tag {
		d.Errorf("HEAD %s says %q", path, head)
	}
	return tag
}

// versionIn is the ETag of an answer without the sum of it.
func versionIn(w *httptest.ResponseRecorder) string {
	version, _, _ := strings.Cut(w.Header().Get("ETag"), ".")
	return version + `"`
}

// seenCases are what can be changed under an ETag: where it is read, and where it is changed.
func seenCases(t *testing.T) map[string]struct {
	desk                *desk
	read, edit          string
	first, second, last string
} {
	t.Helper()
	letters, _ := dead(t)
	jobs, _ := queues(t)
	type c = struct {
		desk                *desk
		read, edit          string
		first, second, last string
	}
	return map[string]c{
		"a dead letter":             {letters, "dead/1", "dead/1/payload", "first", "second", "last"},
		"a job":                     {jobs, "queues/q/job?id=e0/p", "queues/q/job/payload?id=e0/p", "first", "second", "last"},
		"the settings of one queue": {jobs, "queues/q", "queues/q/settings", `{"max":1}`, `{"max":2}`, `{"max":3}`},
	}
}

func TestAChangeOfWhatWasSeenIsRefusedOnceItIsAnother(t *testing.T) {
	for name, c := range seenCases(t) {
		t.Run(name, func(t *testing.T) {
			d := c.desk
			d.T = t
			seen := d.tag(c.read)
			w := d.change(c.edit, c.first, seen)
			d.good(w)
			now := d.tag(c.read)
			if now == seen || w.Header().Get("ETag") != now {
				t.Errorf("the ETag was %s, is %s, and the change answered %s", seen, now, w.Header().Get("ETag"))
			}
			refused(t, d.change(c.edit, c.second, seen), http.StatusPreconditionFailed, "since")
			if d.tag(c.read) != now {
				t.Error("what was refused has changed something")
			}
			d.good(d.change(c.edit, c.second, now))
			d.good(d.change(c.edit, c.last, "*")) // whatever it is
			d.good(d.change(c.edit, c.first, d.ask(http.MethodGet, c.read, "").Header().Get("ETag")))
			if got := d.tag(c.read); got != now {
				t.Errorf("the same again has the ETag %s, want %s", got, now)
			}
			for _, bad := range [][]string{{""}, {"abc"}, {"W/" + now}, {now + ", " + seen}, {now, seen}, {`""`}} {
				refused(t, d.change(c.edit, c.second, bad...), http.StatusBadRequest, "If-Match is one ETag")
			}
		})
	}
}

func TestAChangeOfWhatWasNotReadIsRefused(t *testing.T) {
	for name, c := range seenCases(t) {
		t.Run(name, func(t *testing.T) {
			d := c.desk
			d.T = t
			seen := d.tag(c.read)
			path, _, _ := strings.Cut(c.read, "?")
			refused(t, d.change(c.edit, c.first), http.StatusPreconditionRequired, "or If-Match: * to change whatever is there")
			if w := d.change(c.edit, c.first); !strings.Contains(w.Body.String(), "send the ETag of GET "+admin.Prefix+path[:strings.Index(path, "/")]) {
				t.Errorf("it does not say where the ETag is: %s", w.Body)
			}
			if d.tag(c.read) != seen {
				t.Error("it was changed")
			}
		})
	}
}

func TestWhoIsRefusedAnEditIsShownWhatIsThereNow(t *testing.T) {
	for name, c := range seenCases(t) {
		t.Run(name, func(t *testing.T) {
			d := c.desk
			d.T = t
			seen := d.tag(c.read)
			d.good(d.change(c.edit, c.first, seen))
			var said operation.Problem
			if err := json.Unmarshal(d.change(c.edit, c.second, seen).Body.Bytes(), &said); err != nil || said.Status != http.StatusPreconditionFailed {
				t.Fatal(err, said)
			}
			age := regexp.MustCompile(`"oldest_age_seconds":[0-9.e-]+`)
			if now := strings.TrimSpace(d.get(c.read)); age.ReplaceAllString(string(said.Now), "") != age.ReplaceAllString(now, "") {
				t.Errorf("it is said to be\n%s\nand is\n%s", said.Now, now)
			}
			if c.second[0] != '{' {
				d.good(d.change(c.edit, strings.Repeat("x", 70_000), "*"))
				if w := d.change(c.edit, c.second, seen); strings.Contains(w.Body.String(), `"now"`) {
					t.Errorf("a refusal has %d bytes", w.Body.Len())
				}
			}
		})
	}
}

func TestAReadOfWhatIsAsItWasIsNotAnsweredAgain(t *testing.T) {
	for name, c := range seenCases(t) {
		t.Run(name, func(t *testing.T) {
			if c.read == "queues/q" {
				t.Skip("its oldest job is older each time")
			}
			d := c.desk
			d.T = t
			whole := d.ask(http.MethodGet, c.read, "").Header().Get("ETag")
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				for given, same := range map[string]bool{whole: true, `"x", W/` + whole: true, "*": true, `"x"`: false, d.tag(c.read): false, "": false} {
					w := d.headed(method, c.read, "", http.Header{operation.IfNoneMatch: {given}})
					if same && (w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != whole) || !same && w.Code != http.StatusOK {
						t.Errorf("%s with %s is answered %d: %s", method, given, w.Code, w.Body)
					}
				}
			}
			d.good(d.change(c.edit, c.first, "*"))
			if w := d.headed(http.MethodGet, c.read, "", http.Header{operation.IfNoneMatch: {whole}}); w.Code != http.StatusOK {
				t.Errorf("what was changed is answered %d", w.Code)
			}
		})
	}
}

// That nothing was edited does not mean that nothing happened.
func TestAQueueIsReadAgainWhenItsJobsAreOthers(t *testing.T) {
	d, _ := queues(t)
	version, whole := d.tag("queues/q"), d.ask(http.MethodGet, "queues/q", "").Header().Get("ETag")
	d.post("queues/q/remove?all=true", "")
	if w := d.headed(http.MethodGet, "queues/q", "", http.Header{operation.IfNoneMatch: {whole}}); w.Code != http.StatusOK || d.tag("queues/q") != version {
		t.Errorf("answered %d", w.Code)
	}
	d.good(d.change("queues/q/settings", `{"max":9}`, whole))
}

func TestOfConcurrentChangesOfWhatAllHaveSeenOneIsMade(t *testing.T) {
	for name, c := range seenCases(t) {
		t.Run(name, func(t *testing.T) {
			d := c.desk
			d.T = t
			seen := d.tag(c.read)
			answers := make([]*httptest.ResponseRecorder, 6)
			var all sync.WaitGroup
			for i := range answers {
				body := fmt.Sprint("by ", i)
				if strings.HasPrefix(c.first, "{") {
					body = fmt.Sprintf(`{"max":%d}`, i+10)
				}
				all.Go(func() { answers[i] = d.change(c.edit, body, seen) })
			}
			all.Wait()
			made := 0
			for _, w := range answers {
				if w.Code == http.StatusOK {
					made++
				} else {
					refused(t, w, http.StatusPreconditionFailed, "since")
				}
			}
			if made != 1 {
				t.Errorf("%d changes were made, want one", made)
			}
		})
	}
}

// Its ETag is part of a first answer, and what it was made under is part of what was asked.
func TestAnAnswerThatIsGivenAgainHasItsTag(t *testing.T) {
	_, s := dead(t)
	d := newDesk(t, admin.Parts{Letters: s, Once: tableledger.Memory(tableledger.Options{})})
	seen := d.tag("dead/1")
	ask := func(tag string) *httptest.ResponseRecorder {
		return d.headed(http.MethodPut, "dead/1/payload", "mended", http.Header{operation.IdempotencyKey: {"k"}, operation.IfMatch: {tag}})
	}
	first, again := ask(seen), ask(seen)
	if d.good(again) != first.Body.String() || again.Header().Get("ETag") != first.Header().Get("ETag") {
		t.Errorf("answered with %s, then with %s", first.Header().Get("ETag"), again.Header().Get("ETag"))
	}
	refused(t, ask("*"), http.StatusUnprocessableEntity, "another request")
}

// Of which there may be many, each has what an edit is made under.
func TestEachOfAListingHasItsTag(t *testing.T) {
	d, _ := dead(t)
	for _, l := range lines(d.get("dead")) {
		var one struct{ Seq int64 }
		if err := json.Unmarshal([]byte(l), &one); err != nil {
			t.Fatal(err)
		}
		if tag := d.tag(fmt.Sprint("dead/", one.Seq)); tag != fmt.Sprintf("%q", d.field(l, "etag")) {
			t.Errorf("dead letter %d has %s, listed with %v", one.Seq, tag, d.field(l, "etag"))
		}
	}
}
