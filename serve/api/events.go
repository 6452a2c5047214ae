package api

import "net/http"

// EventsSent is how many events one request may bring.
const EventsSent = 1000

// EventsBody are events that are sent: an array, or one object.
type EventsBody struct {
	Body []byte `body:"application/json" mib:"4"`
}

// EventResults are what became of events, in their order.
type EventResults struct {
	Results []EventResult `json:"results"`
}

// Status is 202 where at least one event was taken.
func (r EventResults) Status() int {
	for i := range r.Results {
		if r.Results[i].Status != "rejected" {
			return http.StatusAccepted
		}
	}
	return http.StatusOK
}

// EventResult is what became of an event.
type EventResult struct {
	ID     string      `json:"id,omitempty"`
	Status string      `json:"status"` // accepted, duplicate, rejected
	Error  *EventError `json:"error,omitempty"`
}

// EventError is why an event was rejected.
type EventError struct {
	Code     string         `json:"code"`
	Problems []EventProblem `json:"problems,omitempty"`
	More     bool           `json:"more,omitempty"` // there are more problems
}

// EventProblem is what is wrong in one place of an event.
type EventProblem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
	Allowed string `json:"allowed"`
}
