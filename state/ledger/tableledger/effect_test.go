package tableledger_test

import "github.com/tidemill/tidemill/state/table"

// effect is a record of another table, changed in the transactions of a ledger's.
type effect struct {
	Name string
	Flag bool
}

type effectReader = table.Reader[effect]

var effectSpec = table.Spec[effect]{Name: "effect", Fields: []table.Field[effect]{
	{Name: "name", At: func(e *effect) any { return &e.Name }},
	{Name: "flag", At: func(e *effect) any { return &e.Flag }},
}}

var everyEffect = table.Query[effect]{Most: 100}
