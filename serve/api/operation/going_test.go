package operation_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// showOld is one that goes away.
func showOld(since, ends, instead string) *operation.Description {
	return operation.GoingAway(operation.View[operation.None, operation.None]("showOld", "old", "Show it."), since, ends, instead).Description
}

func TestAnOperationThatGoesAwayTellsItsClients(t *testing.T) {
	h := http.Header{"Link": {"</other>"}}
	list := operation.ListGoingAway(operation.List[operation.None, operation.None]("listOld", "olds", "List them."), "2027-01-31", "2027-07-31", "Use listNew.")
	list.Going.Tell(h, "/console/reference/listOld")
	for name, want := range map[string]string{"Deprecation": "@1801353600", "Sunset": "Sat, 31 Jul 2027 00:00:00 GMT", "Link": `</other>, </console/reference/listOld>; rel="deprecation"; type="text/html"`} {
		if got := strings.Join(h.Values(name), ", "); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got, want := list.Going.String(), "It goes away: deprecated since 2027-01-31, and gone from 2027-07-31 on at the earliest. Use listNew."; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	stays := http.Header{}
	if makeDocument.Going.Tell(stays, "/"); len(stays) > 0 {
		t.Errorf("one that stays tells %v", stays)
	}
}

func TestClientsHaveSixMonths(t *testing.T) {
	if showOld("2027-03-01", "2027-09-01", "Use it.").Going == nil {
		t.Error("six months are not enough")
	}
	for want, c := range map[string][3]string{
		"showOld: from 2027-03-01 to 2027-08-31 are less than 6 months": {"2027-03-01", "2027-08-31", "Use it."},
		"showOld: it goes away at \"March\", which is no day":           {"March", "2027-09-01", "Use it."},
		"showOld: it goes away at \"2027-9-1\", which is no day":        {"2027-03-01", "2027-9-1", "Use it."},
		"showOld: it goes away, and nobody is told what to do instead":  {"2027-03-01", "2027-09-01", ""},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%v: %s, want %s", c, got, want)
				}
			}()
			showOld(c[0], c[1], c[2])
		}()
	}
}
