package ingest

import (
	"fmt"
	"net/http"

	"github.com/tidemill/tidemill/bench/requests"
)

// Members of a page view and of a purchase.
const (
	viewMembers     = `"eventType":"page_view","context":{"page":{"url":"https://shop.example/collections/shoes?utm_source=newsletter","title":"Shoes"}}`
	purchaseMembers = `"eventType":"purchase","orderId":"%s","value":149.9,"currency":"EUR","items":[{"id":"sku-1","quantity":1,"price":149.9}]`
)

// newLoad opens connections whose requests have an idempotency key each, and an event that has an id
// of its own, or none.
func newLoad(addr string, o options, ids bool) (*requests.Load, error) {
	members := viewMembers
	if o.purchases {
		members = fmt.Sprintf(purchaseMembers, requests.ID)
	}
	own := fmt.Sprintf(`"eventId":"%s"`, requests.ID)
	if !ids {
		own = `"deviceId":"5f2a9f0e-6a51-4c7e-9a5e-0d3c8f1b7a64"`
	}
	body := `{` + members + `,` + own + `,"timestamp":"2026-11-21T19:00:00.123Z","siteId":"shop","sessionId":"1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",` +
		`"userId":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`
	headers := "X-API-Key: " + key + "\r\nX-Idempotency-Key: " + requests.ID + "\r\n"
	return requests.Open(addr, o.connections, requests.Post("/v1/events", headers, []byte(body)), http.StatusAccepted)
}
