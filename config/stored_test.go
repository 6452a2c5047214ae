package config_test

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
)

const partnersList = "delivery.partners"

func stored(list, name, text string) config.Stored {
	return config.Stored{List: list, Name: name, Text: []byte(text)}
}

// shownElements are the names of elements, each with where it is from.
func shownElements(c *config.Loaded) string {
	var all []string
	for _, e := range c.Elements() {
		from := "file"
		if e.From == config.FromDatabase {
			from = "database"
		}
		all = append(all, e.Kind+" "+e.Name+" "+from)
	}
	return strings.Join(all, ", ")
}

func TestStoredElementsStandBesideThoseOfTheFile(t *testing.T) {
	a, b := two(t, "delivery:\n  sites: [{id: shop}]\n  partners: [{name: crm, endpoint: 'https://crm.example/'}]\n", "delivery:\n  sites: [{id: shop}]\n  partners: [{name: ads, endpoint: 'https://file.example/'}]\n")
	all := []config.Stored{stored(partnersList, "ads", `{"name":"ads","endpoint":"https://ads.example/?key=canary","timeout":"5s"}`), stored("delivery.sites", "blog", `{"id":"blog","daily":7}`)}
	next, err := a.WithStored(all)
	if err != nil {
		t.Fatal(err)
	}
	if got := shownElements(next); got != "site shop file, site blog database, partner crm file, partner ads database" {
		t.Errorf("elements %s", got)
	}
	d := deliveryconfig.Of(next)
	if d.Partners[1].Timeout.Seconds() != 5 || d.Sites[1].Daily != 7 || len(deliveryconfig.Of(a).Partners) != 1 {
		t.Errorf("%+v", d.Partners)
	}
	if got := strings.Join(said(a.Changes(next)), "; "); got != "added delivery.sites[blog]; added delivery.partners[ads]" {
		t.Errorf("changes %s", got)
	}
	var shown strings.Builder
	if err := next.Write(&shown); err != nil || !strings.Contains(shown.String(), "# delivery.partners, number 2, from the database\n") || strings.Contains(shown.String(), "canary") {
		t.Errorf("%v: %s", err, shown.String())
	}
	for _, e := range next.Elements() {
		if text, err := e.Shown(); err != nil || strings.Contains(string(text), "canary") || e.Name == "blog" && string(text) != `{"id": "blog", "daily": 7}` {
			t.Errorf("%s is shown as %s, %v", e.Name, text, err)
		}
	}
	again, err := next.WithStored(all[:1]) // in place of those that it has
	if err != nil || shownElements(again) != "site shop file, partner crm file, partner ads database" {
		t.Errorf("%s, %v", shownElements(again), err)
	}
	wins, err := b.WithStored(all)
	if err != nil || shownElements(wins) != "site shop file, site blog database, partner ads file" || deliveryconfig.Of(wins).Partners[0].Endpoint != "https://file.example/" {
		t.Errorf("of the file: %s, %v", shownElements(wins), err)
	}
}

func TestStoredElementsAreCheckedAsTheFileIs(t *testing.T) {
	a, _ := two(t, "delivery:\n  sites: [{id: shop, keys: [canary-shop-1234567]}]\n", "")
	for text, want := range map[string]string{
		`{"name":"ads","endpiont":"canary"}`:  "the database: partner ads:1: there is no setting partner.endpiont; did you mean endpoint?",
		`{"name":"ads","timeout":["canary"]}`: "the database: partner ads:1: partner.timeout: want a duration",
		`{"name":`:                            "the database: partner ads: it cannot be read",
	} {
		if _, err := a.WithStored([]config.Stored{stored(partnersList, "ads", text)}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := a.WithStored([]config.Stored{stored("delivery.sites", "b", `{"id":"b","keys_sha256":["x"]}`)}); err == nil || !strings.Contains(err.Error(), "the database: delivery.sites: ") {
		t.Errorf("what the group refuses: %v", err)
	}
}

func TestADescriptionKeepsNoSecret(t *testing.T) {
	c, _ := two(t, "delivery: {workers: 3}\n", "")
	text, err := c.Describe("delivery.sites", "shop", nil, []byte(`{"keys":["canary-key-of-the-shop"],"daily":10000000}`))
	if err != nil || strings.Contains(string(text), "canary") || !strings.Contains(string(text), `"keys_sha256":["`) || !strings.Contains(string(text), `"id":"shop"`) || !strings.Contains(string(text), `"daily":10000000`) {
		t.Fatalf("%s, %v", text, err)
	}
	next, err := c.WithStored([]config.Stored{stored("delivery.sites", "shop", string(text))})
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := deliveryconfig.Of(next).SiteKeys(&deliveryconfig.Of(next).Sites[0]); err != nil || len(keys) != 1 {
		t.Errorf("%v, %v", keys, err)
	}
	_, err = c.Describe("crm.handlers", "app", nil, []byte(`{"endpoint":{"url":"https://a.example","secrets":["canary"]}}`))
	if err == nil || !strings.Contains(err.Error(), "handler app: endpoint.secrets: secrets are not kept in the database") || strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret: %v", err)
	}
	for change, want := range map[string]string{`{"keys":["[secret]"]}`: "site shop: keys[0]: [secret] stands for", `{"endpoint":{"headers":{"X":"[secret]"}}}`: "site shop: endpoint.headers.X: [secret] stands for"} {
		if text, err := c.Describe("delivery.sites", "shop", nil, []byte(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("what is shown in place of a secret is taken: %s, %v", text, err)
		}
	}
	// One that was kept before that was refused is no reason not to start.
	if _, err := c.WithStored([]config.Stored{stored(partnersList, "ads", `{"name":"ads","endpoint":"https://ads.example/","headers":{"X":"[secret]"}}`)}); err != nil {
		t.Error(err)
	}
}

func TestADescriptionIsPatched(t *testing.T) {
	c, _ := two(t, "delivery: {workers: 3}\n", "")
	was := []byte(`{"name":"ads","auth":{"type":"bearer","credentials":"A"},"timeout":"5s","when":"a < b && \"é\""}`)
	text, err := c.Describe(partnersList, "ads", was, []byte(`{"auth":{"credentials":"B"},"timeout":null,"sites":["shop"]}`))
	if want := `{"auth":{"credentials":"B","type":"bearer"},"name":"ads","sites":["shop"],"when":"a < b && \"é\""}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	for _, wrong := range []string{`[]`, `null`, `7`, `{`, ``, `{"name":"other"}`} {
		if text, err := c.Describe(partnersList, "ads", was, []byte(wrong)); err == nil {
			t.Errorf("%s makes %s", wrong, text)
		}
	}
	if _, err := c.Describe("delivery.queues", "x", nil, []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "stand in the file") {
		t.Errorf("a list of the file: %v", err)
	}
}
