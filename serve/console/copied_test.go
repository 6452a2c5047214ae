package console_test

import (
	"strings"
	"testing"
)

// TestWhatIsCopiedHasAButton holds that ids, commands and links have a button that copies the whole of them.
func TestWhatIsCopiedHasAButton(t *testing.T) {
	w := newWorld(t)
	w.fill("")
	for path, texts := range map[string][]string{
		"":                                     {"d1", "d2", "d3"},
		"operations":                           {"op"},
		"operations/op":                        {"d1"},
		"books":                                {"tidemill audit"},
		"config":                               {"tidemill config show"},
		"audit?check=yes":                      {"tidemill audit trail"},
		"find?q=two":                           {"two"},
		"find?q=12345678901234567890&scan=yes": {"e3"},
		"explain?system=delivery&owner=shop&id=one": {"one", "shop", "e3"},
	} {
		w.Copies("/console/"+path, texts...)
	}
	if !strings.Contains(w.Page("/console/dead?since=24h"), `data-link="/console/dead?since=`) {
		t.Error("the link with its times fixed has no button that copies it")
	}
}
