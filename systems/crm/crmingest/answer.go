package crmingest

import (
	"encoding/json"
	"errors"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/systems/crm/accept"
	"github.com/tidemill/tidemill/systems/crm/event"
)

// Codes of events that are refused.
const (
	codeInvalid = "validation_failed"
	codeLarge   = "too_large"
	codeTenant  = "tenant_not_allowed"
)

// AppendAnswer appends what became of events: of an array {"results":[…]}, of one event its
// result alone.
func AppendAnswer(b []byte, results []accept.Result, array bool) []byte {
	if !array && len(results) == 1 {
		return appendResult(b, &results[0])
	}
	return append(AppendResults(append(b, `{"results":`...), results), '}')
}

// AppendResults appends a JSON array with a result for each event, in their order:
//
//	{"id":"evt-1","status":"accepted"}
//	{"id":"evt-2","status":"rejected","error":{"code":"validation_failed","problems":[…]}}
func AppendResults(b []byte, results []accept.Result) []byte {
	b = append(b, '[')
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, &results[i])
	}
	return append(b, ']')
}

func appendResult(b []byte, r *accept.Result) []byte {
	b = append(b, '{')
	if r.ID != "" {
		b = append(endpoint.Quote(append(b, `"id":`...), r.ID), ',')
	}
	b = append(append(append(b, `"status":"`...), r.Status...), '"')
	if r.Status == accept.Rejected {
		b = append(b, `,"error":{"code":"`...)
		if bad, ok := errors.AsType[*event.Invalid](r.Err); ok {
			b = append(append(b, codeInvalid...), `",`...)
			b = append(appendProblems(b, bad), '}')
		} else {
			b = append(append(b, codeTenant...), `"}`...)
		}
	}
	return append(b, '}')
}

// appendProblems appends what is wrong with an event, as members of an object.
func appendProblems(b []byte, bad *event.Invalid) []byte {
	list, err := json.Marshal(bad.Problems)
	if err != nil { // texts always can be
		list = []byte("[]")
	}
	b = append(append(b, `"problems":`...), list...)
	if bad.More {
		b = append(b, `,"more":true`...)
	}
	return b
}
