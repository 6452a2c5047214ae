// Package windowsingest is the HTTP endpoint of the windows system: use it where records come from
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
// for nobody. Files at once, and their size on disk, are bounded beside what every endpoint
// bounds.
package windowsingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/gather"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// Path that the endpoint's paths begin with.
const Path = "/v1/windows"

// Serves says whether a path, as a request has it, is the endpoint's.
func Serves(path string) bool { return path == Path || strings.HasPrefix(path, Path+"/") }

// Windows is what the endpoint needs of a window store; a window.Store is one.
type Windows interface {
	window.Intake
	// List is that of window.Inspector.
	List(ctx context.Context, f window.Filter) iter.Seq2[*window.Info, error]
}

// Options tune the endpoint. Windows is required. A batch id is one of the key's project;
// without Projects no key is needed, where only programs of this machine can come.
type Options struct {
	endpoint.Options
	Windows Windows
	Project uuid.UUID     // whose all records are where no key is needed; zero: the project called default
	Header  string        // carries the batch id; empty: X-Batch-ID. batchId is read too.
	Expect  string        // a header that tells how many records the batch will have, all kinds together; empty: none does
	Spool   string        // a folder of the endpoint's own for files while they are taken, which is made; empty: that of the system
	Timeout time.Duration // until what a call of the store has is durable; 0 means 10s. A request waits for two at the most.
	Limits  Limits
}

// Limits bound what clients may take: by default bodies of 8 MiB with 10,000 records, in
// 128 MiB of memory. A minute is a project's, on this instance. A file may have more records.
type Limits struct {
	endpoint.Limits
	File     int           // bytes of a file as it is sent; 0 means 64 MiB
	Unpacked int           // bytes of a file, unpacked; 0 means 512 MiB
	Files    int           // taken at once; 0 means 4. More are answered 503.
	FileTime time.Duration // to send a file in; 0 means 5m
}

const (
	// recordMemory is about what a record takes beside its bytes and its name.
	recordMemory = 512
	// fileMemory is about what is in memory of a file: a part (partBytes, and one long row more)
	// and its records.
	fileMemory = 8 << 20
)

// Handler is the endpoint: an http.Handler with all its paths. It may be used by any number
// of goroutines.
type Handler struct {
	*endpoint.Frame[*exchange]
	o     Options
	line  gather.Line[*putting]
	files chan struct{} // one for each file that is being taken
}

// exchange is one request and its answer.
type exchange struct {
	endpoint.Exchange
	h       *Handler
	project uuid.UUID // whose records it brings
}

// New makes an endpoint. Files that another process has left in Options.Spool are removed.
func New(o Options) (*Handler, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("the endpoint of windows: %w", err)
	}
	h := &Handler{o: o, files: make(chan struct{}, o.Limits.Files)}
	h.gather()
	if err := tidy(o.Spool); err != nil {
		return nil, fmt.Errorf("the endpoint of windows: %w", err)
	}
	var err error
	h.Frame, err = endpoint.New(endpoint.Protocol[*exchange]{
		Name: "the endpoint of windows", System: "windows", New: func() *exchange { return &exchange{h: h} },
		Find: find, Help: help, Headers: endpoint.Private,
		Defaults: endpoint.Limits{Body: 8 << 20, Items: 10_000, Memory: 128 << 20},
		// As sent, inflated while it grows, what is made of it, and a file beside.
		Least: func(l *endpoint.Limits) int64 { return 5*int64(l.Body) + int64(l.Items)*recordMemory + fileMemory },
		Metrics: endpoint.Metrics{Requests: "tidemill_windows_requests_total", RequestsHelp: "Requests answered by the ingest API of windows, by door and status code.",
			Items: "tidemill_windows_door_records_total", ItemsHelp: "Records judged by the ingest API of windows, by door and verdict.", Seconds: "tidemill_windows_request_seconds", Buckets: endpoint.Buckets(30),
			Label: "door", Paths: []string{"none", "status", "events", "mentions", "files"}, Quiet: events, Verdicts: []string{accepted, duplicate, rejected, limited, unkept}},
	}, &h.o.Options, &h.o.Limits.Limits)
	return h, err
}

// check fills defaults and refuses nonsense, of what only this endpoint has.
func (o *Options) check() error {
	if o.Windows == nil {
		return errors.New("a window store is needed")
	}
	if o.Project == (uuid.UUID{}) {
		o.Project = project.ID("default")
	}
	if o.Header == "" {
		o.Header = record.BatchHeader
	}
	l := &o.Limits
	return errors.Join(
		endpoint.Fill([]endpoint.Field[int]{{Name: "Limits.Body", V: &l.Body, Most: window.MaxPutBytes}, {Name: "Limits.Items", V: &l.Items, Most: window.MaxPut},
			{Name: "Limits.File", V: &l.File, Default: 64 << 20}, {Name: "Limits.Unpacked", V: &l.Unpacked, Default: 512 << 20}, {Name: "Limits.Files", V: &l.Files, Default: 4}}...),
		endpoint.Fill([]endpoint.Field[time.Duration]{{Name: "Limits.FileTime", V: &l.FileTime, Default: 5 * time.Minute}, {Name: "Timeout", V: &o.Timeout, Default: 10 * time.Second}}...))
}

// What requests are counted by: their path.
const (
	elsewhere = iota // paths that there are not
	status
	events
	mentions
	files
)

// What became of a record.
const (
	accepted  = "accepted"
	duplicate = "duplicate"
	rejected  = "rejected"
	limited   = "limited"
	unkept    = "unkept" // it could not be kept then; its sender was asked to retry
)

// help is what there is.
const help = "records go to POST " + Path + "/events and " + Path + "/mentions, files to POST " + Path + "/files; GET " + Path + "/{batch} shows the windows of a batch id"

// routes are what may be sent to, by the rest of the path.
var routes = map[string]*endpoint.Route[*exchange]{
	"events":   {Path: events, Do: func(x *exchange) *request.Problem { return x.post(record.Event) }},
	"mentions": {Path: mentions, Do: func(x *exchange) *request.Problem { return x.post(record.Mention) }},
	"files":    {Path: files, Do: (*exchange).file},
}

// find finds what is asked for. Any batch id may be asked about, also one that is called as
// a path for records is.
func find(x *exchange) *endpoint.Route[*exchange] {
	const get, both = http.MethodGet, http.MethodGet + ", " + http.MethodPost
	rest, ok := strings.CutPrefix(x.R.URL.EscapedPath(), Path+"/") // a batch id may have a slash
	if !ok || rest == "" {
		return nil
	}
	rt := endpoint.Route[*exchange]{Allow: get, Do: func(x *exchange) *request.Problem { return x.status(rest) }}
	to := routes[rest]
	if to != nil {
		rt.Allow = both
	}
	switch {
	case x.R.Method == get:
		rt.Path = status
	case x.R.Method == http.MethodPost && to != nil:
		rt.Path, rt.Do = to.Path, to.Do
	}
	return &rt
}

// authenticate finds whose key the request brings, where one is needed.
func (x *exchange) authenticate() *request.Problem {
	if x.h.Keys == nil {
		x.project = x.h.o.Project
		x.Body.Vouch()
		return nil
	}
	p := x.Authenticate(request.Key(x.R))
	x.project = x.Owner.Project.ID
	return p
}

// admit counts records in the project's minute, or refuses them. back takes them out again.
func (x *exchange) admit(n int) (back func(), p *request.Problem) {
	back, p = x.Admit(x.project.String(), n, fmt.Sprintf("the records of this minute are used up, or would be with these: at most %d are taken in a minute", x.h.PerMinute()))
	if p != nil {
		x.Count(limited, n)
	}
	return back, p
}

// Handled is what the endpoint has done since it was made.
type Handled struct {
	Requests                                       uint64 // answered
	Accepted, Duplicate, Rejected, Limited, Unkept uint64 // records
}

// Handled says what the endpoint has done so far.
func (h *Handler) Handled() Handled {
	return Handled{h.Requests(), h.Items(accepted), h.Items(duplicate), h.Items(rejected), h.Items(limited), h.Items(unkept)}
}
