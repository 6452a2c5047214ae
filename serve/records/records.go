// Package records is the HTTP door of the windows system: use it where records come from
// programs and scripts that have no Kafka at hand, or as files.
//
//	POST /v1/windows/events            one record, an array of them, or lines of them
//	POST /v1/windows/mentions          the same of mentions
//	POST /v1/windows/files?name=…      a GDELT file, plain or zipped, as its name says
//	GET  /v1/windows/{batch}           what is known of the windows of a batch id
//
// A batch id is one of the project whose key the request brings: what projects send under one
// id are different batches, and each is shown its own. Records say the id in the header
// X-Batch-ID (or batchId), or in the query parameter batch; a file's is the part of its name
// up to the first dot.
//
// A 202 means that every record it counts as accepted is durable in the window store. A
// record that comes again while its window is open takes its own place and is a duplicate:
// after a timeout or a 503 all of the request may be sent once more. Later it opens another
// window of its batch id. Records that are refused are named with what is wrong with them,
// and keep none of the others out.
//
// Requests that come at the same time share calls of the store; one that comes alone waits
// for nobody. Everything a client may take is bounded: bytes as sent and inflated, records,
// files at once and their size on disk, the time to send a body, requests at once and the
// memory of all of them. Connections and headers are the server's to bound.
package records

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/internal/gather"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Path that the door's paths begin with.
const Path = "/v1/windows"

// Serves says whether a path, as a request has it, is the door's.
func Serves(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Handler is the door: an http.Handler with all its paths. It may be used by any number
// of goroutines.
type Handler struct {
	o       Options
	keys    *request.Keyring // nil: no key is needed
	bodies  *request.Bodies
	stats   *stats
	line    gather.Line[*putting]
	minutes request.Minutes
	running atomic.Int64  // requests
	files   chan struct{} // one for each file that is being taken
}

// New makes a door. Files that another process has left in Options.Spool are removed.
func New(o Options) (*Handler, error) {
	o, err := o.check()
	if err != nil {
		return nil, fmt.Errorf("the door of windows: %w", err)
	}
	h := &Handler{o: o, files: make(chan struct{}, o.Limits.Files),
		bodies: request.NewBodies(request.Limits{Memory: o.Limits.Memory, Ratio: o.Limits.Ratio, Time: o.Limits.Time, Trusted: o.TrustProxy})}
	h.gather()
	if o.Projects != nil {
		if h.keys, err = request.NewKeyring(o.Projects, o.Now, o.Log.With("system", "windows")); err != nil {
			return nil, fmt.Errorf("the door of windows: %w", err)
		}
	}
	if err := tidy(o.Spool); err != nil {
		return nil, fmt.Errorf("the door of windows: %w", err)
	}
	if h.stats, err = newStats(o.Registerer); err != nil {
		return nil, fmt.Errorf("the door of windows: register metrics: %w", err)
	}
	return h, nil
}

// help is what there is.
const help = "records go to POST " + Path + "/events and " + Path + "/mentions, files to POST " + Path + "/files; GET " + Path + "/{batch} shows the windows of a batch id"

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r}
	x.body.Open(h.bodies, r)
	start := time.Now()
	defer x.end(start)
	answer.Secure(w.Header())
	if h.running.Add(1) > int64(h.o.Limits.Requests) {
		x.fail(answer.Busy("too many requests at once, please retry"))
		return
	}
	do, p := x.route()
	if p == nil {
		p = do()
	}
	if p != nil {
		x.fail(p)
	}
}

// route finds what is asked for. Any batch id may be asked about, also one that is called as
// a path for records is.
func (x *exchange) route() (do func() *answer.Problem, p *answer.Problem) {
	rest, ok := strings.CutPrefix(x.r.URL.EscapedPath(), Path+"/") // a batch id may have a slash
	if !ok || rest == "" {
		return nil, answer.NotFound("there is nothing at this path; " + help)
	}
	allow := http.MethodGet + ", " + http.MethodPost
	switch rest {
	case "events":
		x.door, do = events, func() *answer.Problem { return x.post(record.Event) }
	case "mentions":
		x.door, do = mentions, func() *answer.Problem { return x.post(record.Mention) }
	case "files":
		x.door, do = files, x.file
	default:
		allow = http.MethodGet
	}
	switch {
	case x.r.Method == http.MethodGet:
		x.door = status
		return func() *answer.Problem { return x.status(rest) }, nil
	case x.r.Method == http.MethodPost && do != nil:
		return do, nil
	}
	x.door = elsewhere
	x.w.Header().Set("Allow", allow)
	return nil, &answer.Problem{Code: http.StatusMethodNotAllowed, Word: "method_not_allowed", Text: "this path takes " + allow + "; " + help}
}
