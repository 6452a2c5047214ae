package partner_test

import (
	"fmt"

	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// A partner is data: this one wants its own form of an event, several at a time, and reports
// what became of each.
func Example() {
	p, err := partner.Parse([]byte(`
name: acme
endpoint: https://acme.example/v2/{account}/conversions
auth: {type: bearer, credentials: API_KEY_ACME}
settings: {account: "17"}
batch: {items: 100, head: '{"items":[', tail: ']}'}
dedup: id
idempotent: true
mapping:
  - {field: id, value: event.eventId, required: true}
  - {field: at, value: millis(event.timestamp), required: true}
  - {field: amount, value: event.value}
  - {field: user.email, value: email_hash(event.properties?.email)}
items: {list: body.results, id: item.id, failed: item.status != "ok"}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = p.Build(partner.Env{Secret: variables{}.secret})
	fmt.Println(err)
	built, err := p.Build(partner.Env{Secret: variables{"API_KEY_ACME": "…"}.secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer built.Close()
	fmt.Println(built.Name, built.Items, built.Retry.Tries)
	// Output:
	// partner acme: the variable API_KEY_ACME is not set: it has the secret of auth type bearer
	// acme 100 7
}
