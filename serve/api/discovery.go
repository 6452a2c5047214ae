package api

import (
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Discover is where a client begins that knows the address of an instance alone.
var Discover = operation.View[operation.None, Discovery]("discover", "",
	"Say what this instance is, which systems run in it, what the caller may do, within which limits, and where the rest is described.").For(caller.Viewer).OfEach()

// Discovery is what an instance says of itself.
type Discovery struct {
	Version     string   `json:"version"`
	Instance    string   `json:"instance"`              // the id of this process, made anew at each start
	Name        string   `json:"name,omitempty"`        // console.name
	Environment string   `json:"environment,omitempty"` // console.environment; left out: none is set
	Systems     []string `json:"systems"`               // that run here, of those that the caller may look at
	May         []string `json:"may"`                   // the operations that the caller may do
	Limits      Limits   `json:"limits"`
	Links       Links    `json:"links"`
}

// Limits are what a request is held to.
type Limits struct {
	Pages  operation.PageLimits `json:"pages"`
	Bodies BodyLimits           `json:"bodies"`
	Rates  RateLimits           `json:"rates"`
}

// RateLimits are what each caller may ask; what is left out has no limit. More is refused with 429.
type RateLimits struct {
	Reads        float64 `json:"reads_per_second,omitempty"`
	ReadsBurst   int     `json:"reads_burst,omitempty"` // at once after a rest
	Changes      float64 `json:"changes_per_second,omitempty"`
	ChangesBurst int     `json:"changes_burst,omitempty"`
	Dear         int     `json:"dear_at_once,omitempty"`        // requests that read much
	DearOfAll    int     `json:"dear_of_all_at_once,omitempty"` // of all callers of this instance
}

// BodyLimits are the most bytes that bodies may have. A larger one is refused with 413.
type BodyLimits struct {
	Form int64            `json:"form"` // parameters of a change
	JSON int64            `json:"json"` // a body that says what is asked
	Of   map[string]int64 `json:"of"`   // by operation, of those that the caller may do: bodies of other sizes
}

// Links are paths of this instance.
type Links struct {
	OpenAPI   string `json:"openapi"`
	YAML      string `json:"openapi_yaml"`
	Reference string `json:"reference,omitempty"` // for people; left out: there is no console
	Me        string `json:"me"`
	Stream    string `json:"stream"`
}
