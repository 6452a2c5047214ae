package view_test

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/view"
)

func TestAnAddressIsAPageOfTheConsoleAndLeadsNowhereElse(t *testing.T) {
	for _, good := range []string{
		"/console/", "/console/dead", "/console/dead?state=held&since=1h", "/console/queues/a%2Fb/jobs?state=failed", "/console/queues/a%2Eb", "/console/queues/a..b",
		"/console/dead?text=https%3A%2F%2Fevil.example%2F..%2F", "/console/dead?cause=a+b&reason=x%0Ay", "/console/dead?text=" + strings.Repeat("x", view.MostOf-len("/console/dead?text=")), "/console/windows?state=%C3%A4",
		"/console/loginlog",
	} {
		if err := view.CheckAddress(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"": "does not begin with /console/", "/console": "does not begin", "console/dead": "does not begin", "/api/v1/me": "does not begin", "/tide/console/dead": "does not begin",
		"https://evil.example/console/": "does not begin", "//evil.example/console/": "does not begin", "javascript:alert(1)//console/": "does not begin", " /console/": "does not begin", "\\console\\": "does not begin",
		"/console//evil.example": "has // or a backslash", "/console/a//b": "has // or a backslash", "/console/a\\b": "has a character", "/console/a%5Cb": "has // or a backslash",
		"/console/../login": "dots alone", "/console/%2e%2e/login": "dots alone", "/console/a/%2E./b": "dots alone", "/console/a%2F..%2Fb": "dots alone", "/console/.": "dots alone",
		"/console/dead#x": "behind #", "/console/dead#": "behind #", "/console/dead?a=b c": "has a character", "/console/dead\n": "has a character", "/console/dead?x=\x00": "has a character", "/console/ä": "has a character",
		"/console/%zz": "is none", "/console/dead?a=%zz": "has a query that is none", "/console/dead?a;b": "has a query that is none",
		"/console/login": "lets in or out", "/console/login/corp": "lets in or out", "/console/%6Cogin": "lets in or out",
		"/console/dead?done=x": "done=", "/console/dead?key=x": "key=", "/console/dead?x=y&%6Bey=x": "key=", "/console/dead?cursor=x": "cursor=", "/console/dead?back=x": "back=", "/console/audit?check=yes": "check=",
		"/console/dead?text=" + strings.Repeat("x", view.MostOf): "bytes: want",
	} {
		if err := view.CheckAddress(bad); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/console/dead?state=held") {
			t.Errorf("%q: %v, want what has %q and an example", bad, err, want)
		}
	}
}

func TestANameIsALineThatPeopleSee(t *testing.T) {
	for _, good := range []string{"a", "Late & held <partners>", "Ärger ✓", "死んだ手紙", strings.Repeat("ä", view.MostName)} {
		if err := view.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"": "want 1 to 80", strings.Repeat("ä", view.MostName+1): "want 1 to 80", "a\xff": "UTF-8", "a\nb": "control", "a\x00": "control", "a\x7f": "control", "a\u202eb": "control", "a\u2028b": "control", "a\u200bb": "control", " a": "space", "a ": "space", "\u00a0": "space",
	} {
		if err := view.CheckName(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want what has %q", bad, err, want)
		}
	}
}
