package endpoint

import (
	"net/http"

	"github.com/tidemill/tidemill/serve/request"
)

// A Watcher is shown what comes in, while it is On. It is asked for each request, from any number of
// goroutines, and has to be quick.
type Watcher interface {
	On() bool
	// Came is shown how many items of an owner had a verdict, and why where they were refused. The
	// owner is empty where none is known, and so is the verdict of a request that was refused before
	// its items were looked at: n is 1 then.
	Came(system, owner, verdict string, n int, why string)
}

// came is what was counted of a request.
type came struct {
	verdict string
	n       int
}

// watched says whether somebody looks.
func (c *core) watched() bool { return c.o.Watch != nil && c.o.Watch.On() }

// show shows the watcher a request that is answered, or is going to be with a problem. Without items
// it is of interest where it was to bring some.
func (x *Exchange) show(p *request.Problem) {
	why := ""
	if p != nil {
		why = p.Reason + ": " + p.Text
	}
	owner := x.Owner.Project.Name
	for _, c := range x.came {
		x.core.o.Watch.Came(x.core.system, owner, c.verdict, c.n, why)
	}
	if p != nil && len(x.came) == 0 && x.R.Method == http.MethodPost {
		x.core.o.Watch.Came(x.core.system, owner, "", 1, why)
	}
}
