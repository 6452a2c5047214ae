package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/consoletest"
)

// TestAListIsDownloadedAsLines holds that a file has all that the filter of the list chooses, for those who may.
func TestAListIsDownloadedAsLines(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	w.changed("pauseQueue", "q")
	for _, c := range []struct {
		page string
		want int
	}{{"/console/audit", 3}, {"/console/audit?thing=q&outcome=done", 1}, {"/console/dead?limit=25&order=oldest", 3}, {"/console/dead?id=d1&cursor=", 1}, {"/console/audit", 7}} { // the trail has what was exported, the trail too
		page, want := c.page, c.want
		said := w.Page(page)
		_, link, is := strings.Cut(said, `<a class="btn" href="`)
		link, _, _ = strings.Cut(link, `" download>Download as lines`)
		if !is || strings.Contains(link, ">") {
			t.Fatalf("%s has no link to the file: %s", page, consoletest.Text(said))
		}
		rec := w.Ask("GET", consoletest.Unescape.Replace(link), nil, "Accept-Encoding", "gzip")
		h := rec.Header()
		if rec.Code != http.StatusOK || h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename=") || h.Get("Content-Security-Policy") != "sandbox" || h.Get("Content-Encoding") != "" {
			t.Fatalf("%s is answered %d, %v: %s", link, rec.Code, h, rec.Body)
		}
		lines := strings.Split(strings.TrimSuffix(rec.Body.String(), "\n"), "\n")
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s has the line %.100s", link, line)
			}
		}
		if len(lines) != want {
			t.Errorf("%s has %d lines, want %d", link, len(lines), want)
		}
	}
	if rec := w.Ask("GET", "/console/dead/export?pipeline=none", nil); rec.Code != http.StatusOK || rec.Body.Len() != 0 {
		t.Errorf("a file of nothing is answered %d: %s", rec.Code, rec.Body)
	}
	if rec := w.Ask("GET", "/console/dead/export?sytem=crm", nil); rec.Code != http.StatusBadRequest || rec.Header().Get("Content-Disposition") != "" {
		t.Errorf("a wrong filter is answered %d, %v", rec.Code, rec.Header())
	}
	w.Who.Rights = caller.All(caller.Viewer)
	for _, path := range []string{"/console/dead/export", "/console/audit/export"} {
		if rec := w.Ask("GET", path, nil); rec.Code != http.StatusForbidden {
			t.Errorf("a viewer is answered %d at %s", rec.Code, path)
		}
	}
	if strings.Contains(w.Page("/console/dead"), "Download as lines") {
		t.Error("a viewer is shown what operators may do")
	}
}
