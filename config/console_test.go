package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
)

const corp = `console:
  oidc:
    - name: corp
      issuer: https://id.example.com/realms/corp
      client_id: tidemill
      client_secret: canary-3
      scopes: [email, groups]
      groups_claim: realm_access.roles
      roles: {sre: admin, "support team": operator}
    - {name: lab, issuer: "http://localhost:9000", client_id: x, client_secret_env: LAB_SECRET, roles: {all: viewer}}
`

func TestProvidersAreReadAndTheirSecretsNeverWritten(t *testing.T) {
	c, err := settings.Load(config.Layers{File: file(t, corp), Getenv: env(map[string]string{"LAB_SECRET": "canary-4"})})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Console.OIDC
	if len(p) != 2 || p[0].ClientSecret.Reveal() != "canary-3" || p[0].Roles["sre"] != "admin" || p[0].Roles["support team"] != "operator" || len(p[0].Scopes) != 2 || p[0].GroupsClaim != "realm_access.roles" || p[1].SecretEnv != "LAB_SECRET" {
		t.Errorf("read are %+v", p)
	}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%v %+v %#v", c.Config, c.Config, p)
	if strings.Contains(b.String(), "canary") || !strings.Contains(b.String(), "issuer: https://id.example.com/realms/corp") {
		t.Errorf("written is %s", b.String())
	}
	var all strings.Builder
	if err := settings.WriteReference(&all); err != nil || !strings.Contains(all.String(), "# each of console.oidc has:\n") || !strings.Contains(all.String(), "#   groups_claim: ") {
		t.Errorf("the reference does not have what a provider has: %v", err)
	}
}

func TestProvidersThatNobodyCanLogInAtAreRefused(t *testing.T) {
	for _, k := range []struct{ from, to, want string }{
		{"name: corp", "name: Corp", `"Corp" has 1 to 32 of a-z`},
		{"name: corp", "name: token", "is not token, key or local"},
		{"name: corp", "name: lab", "there are two of the name lab"},
		{"https://id.example.com/realms/corp", "http://id.example.com", "is no address with https"},
		{"https://id.example.com/realms/corp", "https://id.example.com/?x=1", "is no address with https"},
		{"client_id: tidemill", "client_id: ''", "client_id is missing"},
		{"client_secret: canary-3", "client_secret: canary-3\n      client_secret_env: X", "not both"},
		{"LAB_SECRET", "NO_SECRET", "neither NO_SECRET nor NO_SECRET_FILE is set"},
		{`roles: {sre: admin, "support team": operator}`, "roles: {}", "roles is missing"},
		{`roles: {sre: admin, "support team": operator}`, "roles: {sre: 'admin:crm'}", "of single systems as viewer operator:crm"},
		{"sre: admin", "sre: boss", `invalid value "boss"; allowed: viewer, operator or admin`},
		{"sre: admin", "sre: nobody", `invalid value "nobody"`},
		{"scopes:", "scope:", "did you mean scopes?"},
	} {
		text := strings.Replace(corp, k.from, k.to, 1)
		_, err := settings.Load(config.Layers{File: file(t, text), Getenv: env(map[string]string{"LAB_SECRET": "canary-4"})})
		if err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", k.to, err, k.want)
		}
	}
}
