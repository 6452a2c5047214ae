package api

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// What says how many there are to be may look at all there is, to find fewer.
func TestLinesThatLookAtAllAreDear(t *testing.T) {
	for query, want := range map[string]struct{ page, lines operation.Cost }{
		"":                            {operation.Normal, operation.Dear},
		"max=1":                       {operation.Normal, operation.Normal},
		"max=1000":                    {operation.Normal, operation.Normal},
		"max=1001":                    {operation.Normal, operation.Dear},
		"newest=100":                  {operation.Normal, operation.Normal}, // of events
		"max=1&system=crm":            {operation.Normal, operation.Normal},
		"max=1&text=":                 {operation.Normal, operation.Normal},
		"max=1&system=crm&text=lamp":  {operation.Normal, operation.Dear},
		"system=crm&text=lamp":        {operation.Normal, operation.Dear},
		"max=1&follow=true":           {operation.Normal, operation.Normal}, // which is refused: it follows nothing
		"follow=false":                {operation.Normal, operation.Dear},
		"follow=true":                 {operation.Normal, operation.Normal},
		"limit=5&count=exact&kind=ok": {operation.Dear, operation.Dear},
	} {
		r := httptest.NewRequest("GET", "/api/v1/dead?"+query, nil)
		page := ListDead.CostOf(r)
		r.Header.Set("Accept", operation.LinesType)
		if lines := ListDead.CostOf(r); page != want.page || lines != want.lines {
			t.Errorf("%q: a page is %v, lines are %v, want %v and %v", query, page, lines, want.page, want.lines)
		}
	}
}

// A page gives way to the taking in of events. What answers from memory has no need to, and what goes on for
// long would hold up the others.
func TestWhatReadsAPageGivesWay(t *testing.T) {
	for query, want := range map[string]struct{ page, lines bool }{
		"":            {true, false},
		"limit=5":     {true, false},
		"max=5":       {true, false},
		"follow=true": {true, false},
		"count=exact": {false, false},
	} {
		r := httptest.NewRequest("GET", "/api/v1/dead?"+query, nil)
		page := ListDead.ReadsPage(r)
		r.Header.Set("Accept", operation.LinesType)
		if lines := ListDead.ReadsPage(r); page != want.page || lines != want.lines {
			t.Errorf("%q: a page gives way: %v, lines: %v, want %v and %v", query, page, lines, want.page, want.lines)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	for _, d := range []*operation.Description{GetDead.Description, GetAudit.Description, ReplayDead.Description, GetStream.Description} {
		if d.ReadsPage(r) {
			t.Errorf("%s gives way", d.ID)
		}
	}
}

// What goes on behind all that is there takes that away too, whatever its form and however many it asks for.
func TestWhatTakesAListingAwayIsForOperators(t *testing.T) {
	for query, want := range map[string]struct{ page, lines bool }{
		"":                            {false, true},
		"limit=1000":                  {false, true}, // which is refused in lines
		"max=1000":                    {false, false},
		"max=1001":                    {false, true},
		"newest=100":                  {false, false},
		"max=5&format=export":         {true, true},
		"follow=true":                 {true, true},
		"follow=true&max=5":           {true, true},
		"follow=true&newest=5":        {false, false},
		"follow=true&newest=1001":     {true, true},
		"limit=5&count=bounded":       {false, true},
		"limit=5&count=exact&max=100": {true, true},
	} {
		r := httptest.NewRequest("GET", "/api/v1/dead?"+query, nil)
		page, _ := operation.Needs(ListDead.Description, r)
		r.Header.Set("Accept", operation.LinesType)
		lines, what := operation.Needs(ListDead.Description, r)
		if (page.Role == caller.Operator) != want.page || (lines.Role == caller.Operator) != want.lines || !strings.Contains(what, "listDead") {
			t.Errorf("%q: a page needs the role %v, lines (%s) %v", query, page.Role, what, lines.Role)
		}
	}
	if d, _ := operation.Needs(ListQueues.Description, httptest.NewRequest("GET", "/api/v1/queues", nil)); d.Role != caller.Viewer || ListDead.Role != caller.Viewer {
		t.Error("a role was raised for all requests")
	}
}
