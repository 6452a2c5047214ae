package deliveryconsole

import (
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
)

func crumbs(name string) []page.Link {
	return []page.Link{{Text: "Partners", Href: page.Address("partners")}, {Text: name, Href: page.Address("partners", name)}}
}

var openCircuit = &page.Action{Path: "partners/{name}/open", Op: deliveryapi.OpenCircuit.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		name, given := v.R.PathValue("name"), v.R.PostFormValue("for")
		if v.R.PostForm == nil || given == "" {
			given = "10m"
		}
		q := &deliveryapi.CircuitOpening{OnePartner: deliveryapi.OnePartner{Partner: name}, For: given}
		return &page.Question{Title: "Leave " + name + " alone?", Button: "Open the circuit", Section: "partners", Crumbs: crumbs(name), Back: v.Back(page.Address("partners", name)),
			Texts:  []string{"Its jobs wait in their queue, in all instances, and lose no try. No other partner is delayed.", "After that time one try decides whether it goes on. Closing the circuit ends it sooner."},
			Inputs: []page.Input{{Name: "for", Label: "For how long: 10m, 2h", Value: given, Auto: "off"}},
			CLI:    page.Command("partner", "open", name, "--for", given), Request: page.Request(deliveryapi.OpenCircuit, q)}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		name := v.R.PathValue("name")
		_, err := page.Change(v, deliveryapi.OpenCircuit, &deliveryapi.CircuitOpening{OnePartner: deliveryapi.OnePartner{Partner: name}, For: strings.TrimSpace(v.R.PostFormValue("for"))})
		return page.Done(v.Back(page.Address("partners", name)), "opened"), page.Refilled(err)
	}}

var closeCircuit = &page.Action{Path: "partners/{name}/close", Op: deliveryapi.CloseCircuit.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		name := v.R.PathValue("name")
		return &page.Question{Title: "Let " + name + " go on?", Button: "Close the circuit", Section: "partners", Crumbs: crumbs(name), Back: v.Back(page.Address("partners", name)),
			Texts: []string{"Its jobs are sent at once, also those that were put off. If it still fails, its circuit opens again by itself.", "A partner that was switched off is switched on again."},
			CLI:   page.Command("partner", "close", name), Request: page.Request(deliveryapi.CloseCircuit, &deliveryapi.OnePartner{Partner: name})}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		name := v.R.PathValue("name")
		_, err := page.Change(v, deliveryapi.CloseCircuit, &deliveryapi.OnePartner{Partner: name})
		return page.Done(v.Back(page.Address("partners", name)), "closed"), err
	}}

var switchOff = &page.Action{Path: "partners/{name}/off", Op: deliveryapi.SwitchOff.ID,
	Ask: func(v *page.Visit) (*page.Question, error) {
		name := v.R.PathValue("name")
		return &page.Question{Title: "Switch " + name + " off?", Button: "Switch the partner off", Section: "partners", Crumbs: crumbs(name), Back: v.Back(page.Address("partners", name)),
			Texts: []string{"Its jobs wait, in all instances, and no new event is queued for it, until its circuit is closed. What is being sent is finished.", "Events that come meanwhile are skipped for it: they are not sent later."},
			CLI:   page.Command("partner", "off", name), Request: page.Request(deliveryapi.SwitchOff, &deliveryapi.OnePartner{Partner: name})}, nil
	},
	Do: func(v *page.Visit) (string, error) {
		name := v.R.PathValue("name")
		_, err := page.Change(v, deliveryapi.SwitchOff, &deliveryapi.OnePartner{Partner: name})
		return page.Done(v.Back(page.Address("partners", name)), "off"), err
	}}

var (
	tryMapping = trial(deliveryapi.TryMapping, "try", "Try the mapping of ", "Show the request", false,
		"The page shows the request that this event would make, with secrets masked. Nothing is sent, and nothing is kept.")
	testPartner = trial(deliveryapi.TestPartner, "test", "Send a test event to ", "Send the event", true,
		"One request is sent, beside the queue, the circuit and the books, and its answer is shown. The partner has the event then, and nobody can take it back: send nothing that must not count there.")
)

// tried is what became of a trial.
type tried struct {
	deliveryapi.TriedMapping
	Body, Answer *page.Payload
	Test         bool // it could be sent, and not only tried
	Again        string
}

// trial is an action with an event, which answers with a page.
func trial(o operation.Operation[deliveryapi.PartnerTrial, deliveryapi.TriedMapping], verb, title, button string, careful bool, texts ...string) *page.Action {
	return &page.Action{Path: "partners/{name}/" + verb, Op: o.ID,
		Ask: func(v *page.Visit) (*page.Question, error) {
			name := v.R.PathValue("name")
			return &page.Question{Title: title + name, Button: button, Careful: careful, Texts: texts, Section: "partners", Crumbs: crumbs(name), Back: page.Address("partners", name),
				Edit: page.NewEditing(v, "", example, "", false), CLI: page.Command("partner", verb, name, "event.json"),
				Request: page.Request(o, &deliveryapi.PartnerTrial{OnePartner: deliveryapi.OnePartner{Partner: name}})}, nil
		},
		Do: func(v *page.Visit) (string, error) {
			name := v.R.PathValue("name")
			event, err := v.Edited()
			if err != nil {
				return "", err
			}
			got, err := page.Change(v, o, &deliveryapi.PartnerTrial{OnePartner: deliveryapi.OnePartner{Partner: name}, Body: event})
			if err != nil {
				return "", page.Refilled(err)
			}
			t := &tried{TriedMapping: got, Again: page.Address("partners", name, verb), Test: got.Sent == nil && v.May(deliveryapi.TestPartner.ID)}
			if r := got.Request; r != nil {
				t.Body = page.NewPayload(r.Body, r.BodyBase64, "")
			}
			if s := got.Sent; s != nil {
				t.Answer = page.NewPayload(s.Answer, s.AnswerBase64, "")
			}
			v.Render(http.StatusOK, &page.View{File: "tried", Title: title + name, Section: "partners", Crumbs: crumbs(name), Body: t})
			return "", nil
		}}
}

// example is an event to begin with.
const example = `{
  "eventType": "purchase",
  "timestamp": "2026-01-15T10:00:00Z",
  "siteId": "shop",
  "orderId": "test-1",
  "value": 39.90,
  "currency": "EUR",
  "items": [{"id": "lamp", "name": "Lamp", "quantity": 1, "price": 39.90}]
}`
