package api

import (
	"net/http/httptest"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
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
