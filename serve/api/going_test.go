package api_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/apitest"
	"github.com/tidemill/tidemill/serve/api/operation"
)

func TestTheDescriptionSaysWhatGoesAway(t *testing.T) {
	old := operation.GoingAway(operation.View[operation.None, operation.Problem]("showOld", "old", "Show it."), "2027-01-31", "2027-07-31", "Use showNew.")
	stays := operation.View[operation.None, operation.Problem]("showNew", "new", "Show it.")
	all := []operation.Handler{{Description: old.Description}, {Description: stays.Description}}
	var doc struct {
		Paths map[string]map[string]struct {
			Deprecated  bool
			Since       string `json:"x-deprecated"`
			Sunset      string `json:"x-sunset"`
			Description string
		}
	}
	text := apitest.Document(t, all, nil)
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	const said = "It goes away: deprecated since 2027-01-31, and gone from 2027-07-31 on at the earliest. Use showNew."
	if got := doc.Paths["/api/v1/old"]["get"]; !got.Deprecated || got.Since != "2027-01-31" || got.Sunset != "2027-07-31" || got.Description != said {
		t.Errorf("%+v", got)
	}
	if n := bytes.Count(text, []byte(`"deprecated"`)); n != 1 {
		t.Errorf("%d operations are deprecated", n)
	}
	if text := string(apitest.Reference(t, all)); !strings.Contains(text, "### GET old\n\nShow it.\n\nRole: admin, for all systems. Cost: normal.\n\n**"+said+"**\n\n") || strings.Count(text, said) != 1 {
		t.Errorf("the reference: %.3000s", text)
	}
}
