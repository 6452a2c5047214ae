package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// An empty payload is replaced by none unless that is said.
func TestAnEmptyPayloadIsAskedForInItsForm(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for _, path := range []string{"/console/dead/delivery/1/edit", "/console/queues/q/edit?id=e3&tenant=shop"} {
		page := w.Page(path)
		w.Has(page, "It is empty on purpose")
		form := url.Values{"etag": {w.Hidden(page, "etag")}, "payload": {""}, "json": {"true"}}
		if rec := w.Ask("POST", path, form); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "Send it again with") {
			t.Errorf("%s: nothing is answered %d", path, rec.Code)
		}
		form.Set("empty", "true")
		form.Set("payload", "{}")
		if rec := w.Ask("POST", path, form); rec.Code != http.StatusUnprocessableEntity || !strings.Contains(rec.Body.String(), "is on. Nothing was changed.") {
			t.Errorf("%s: something that is to be empty is answered %d", path, rec.Code)
		}
		form.Set("payload", "")
		w.Has(w.Page(w.Confirm(path, form)), "The payload was replaced.", "It is empty")
	}
}
