package system

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
)

func TestRolesOfGroupsAreForSystemsThatThereAre(t *testing.T) {
	table := Table{{Name: "crm"}, {Name: "delivery"}}
	for role, want := range map[string]string{"viewer operator:crm": "", "admin": "", "operator:crmm": `there is no system "crmm"; there is crm, delivery`, "admin:crm": "an admin is one of all systems", "owner": "is no role"} {
		c := &config.Loaded{}
		c.Console.OIDC = []config.Provider{{Name: "corp", Roles: map[string]string{"team": role}}}
		err := table.Check(c, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", role, err, want)
		}
	}
}
