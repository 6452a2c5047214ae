package api

import (
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
)

// Of problems: the type of each is the address of its kind.
var (
	ListProblems = operation.List[operation.None, operation.ProblemKind]("listProblems", "problems",
		"List the kinds of problems that the API answers with.").For(caller.Viewer).OfEach()
	GetProblem = operation.View[OneProblem, operation.ProblemKind]("getProblem", "problems/{name}",
		"Explain a kind of problem. A browser is shown a page.").For(caller.Viewer).OfEach()
)

// OneProblem names a kind of problem.
type OneProblem struct {
	Name string `path:"name" arg:"" help:"The last part of its type: not-found."`
}
