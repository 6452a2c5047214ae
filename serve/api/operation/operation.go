// Package operation is how the operators' API is described. Each thing that the API does is one
// value with a typed request and a typed answer:
//
//	var PauseQueue = operation.Act[QueueName, Queue]("pauseQueue", "queues/{name}/pause", "Hand out nothing…")
//
// From it come the route, with the reading of its parameters and the refusal of wrong ones (By);
// the call of a client (Call, Each); and what the OpenAPI document and the reference say of it.
//
// A request is a struct. Its fields say by their tags what they are: `path:"name"` a part of the
// path, `query:"name"` a parameter, `body:"application/json"` the body, `header:"If-Match"` the ETag
// that a change is made under. A parameter may have `help`,
// which the CLI shows for the flag of the same field too, and `enum`, the values that are allowed, in
// any case, `bounds:"1-1000"` of a count, or `form:"uuid"`; a body may be `optional`. A field of another kind than text is read as what it is: a count, a choice, several texts.
package operation

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill/serve/caller"
)

// Prefix of every path of the API.
const Prefix = "/api/v1/"

// IdempotencyKey is the header that has a change made once: the same request with the same key is
// given the first answer again. An operation that lets the key into what it makes says so itself.
const IdempotencyKey = "Idempotency-Key"

// IfMatch is the header that has a change made only of what was seen: it is the ETag that reading
// gave, and the operation refuses with 412 to change what has another one now, and with 428 to change
// anything without it. Who is asked finds the tag without its quotes in a field for it; empty:
// whatever is there is changed, as [Whatever] asks for.
const IfMatch = "If-Match"

// Whatever is the If-Match of a change of whatever is there.
const Whatever = "*"

// IfNoneMatch is the header of a read that is answered with 304 where the answer is still the one that
// has this ETag.
const IfNoneMatch = "If-None-Match"

// Versioned is an answer that has an ETag: another version is another tag. The version is that of what
// can be edited. The ETag of an answer to a read has a point and a sum of the whole answer behind it.
type Versioned interface{ Version() string }

// Description is what an operation is, whatever its request and its answer are.
type Description struct {
	ID       string       // pauseQueue
	Method   string       // GET is HEAD too
	Path     string       // below Prefix, with {wildcards}
	Text     string       // what it does, in a sentence or several
	Lines    bool         // it answers with one JSON object a line
	Events   bool         // it answers with server-sent events
	Asks     reflect.Type // the request, a struct
	Gives    reflect.Type // the answer, or a line of it
	Params   []Param
	OwnKey   bool         // it lets an IdempotencyKey into what it makes, and needs no other memory of it
	NeedsKey bool         // it is refused without an IdempotencyKey
	Secret   bool         // its request or its answer has a secret, of which nothing is kept: it takes no IdempotencyKey
	Edits    *Description // what shows what it edits, with the ETag that it needs as If-Match; nil: it edits nothing
	Reads    bool         // it changes nothing, though its request is a POST: what it asks may be long
	Ingest   bool         // it takes events in, which are accounted for by themselves, and is no change by a person
	Exports  bool         // to read all of it takes away what is in it of people, which the audit trail has
	Fresh    bool         // it needs a login that is not older than FreshFor
	Role     caller.Role  // who may do it, at least
	Cost     Cost         // what it takes, of a request whose parameters do not change that; see CostOf
	Going    *Going       // that it goes away; nil: it stays
	System   string       // for which its role has to be: the one whose operation it is; Each; empty: all, for it concerns the whole instance
}

// Each is what the System of an operation says that concerns things of several systems: it shows and
// changes those alone that are of a system for which its caller has the role.
const Each = "each"

// May says whether rights suffice for it.
func (d *Description) May(r caller.Rights) bool {
	if d.System == Each {
		return r.MayAny(d.Role)
	}
	return r.May(d.Role, d.System)
}

// FreshFor is how old a login may be for operations that need a fresh one. Who shows a token with each
// request proves with each who they are.
const FreshFor = 15 * time.Minute

// NeedLogin is the problem of a login that is older.
func NeedLogin(what string) *Problem {
	p := Refuse(http.StatusForbidden, "%s needs a login that is not older than %d minutes: log in again", what, int(FreshFor.Minutes()))
	p.Type, p.Title = LoginAgain, "Log in again"
	return p
}

// Param is a field of a request.
type Param struct {
	Name  string
	In    string // path, query, body or header
	Field reflect.StructField
}

// In is where a Param is.
const (
	InPath   = "path"
	InQuery  = "query"
	InBody   = "body"
	InHeader = "header"
)

// Operation shows or changes something: it asks Q and answers with one A. Copies have one
// description, so that the code of a hundred of them is small.
type Operation[Q, A any] struct{ *Description }

// Listing shows many A, one a line.
type Listing[Q, A any] struct{ *Description }

// None is a request without any parameter.
type None struct{}

// View describes an operation that shows something.
func View[Q, A any](id, path, text string) Operation[Q, A] {
	return Operation[Q, A]{describe(id, http.MethodGet, path, text, reflect.TypeFor[Q](), reflect.TypeFor[A]())}
}

// Act describes an operation that changes something. Its parameters may come in a form, unless it
// has a body of another kind.
func Act[Q, A any](id, path, text string) Operation[Q, A] {
	return Operation[Q, A]{describe(id, http.MethodPost, path, text, reflect.TypeFor[Q](), reflect.TypeFor[A]())}
}

// List describes a listing.
func List[Q, A any](id, path, text string) Listing[Q, A] {
	return Listing[Q, A]{describe(id, http.MethodGet, path, text, reflect.TypeFor[Q](), reflect.TypeFor[A]()).list()}
}

// list makes it that of a listing.
func (d *Description) list() *Description {
	d.Lines = true
	if d.Paged() && !d.Gives.Implements(reflect.TypeFor[Keyed]()) {
		panic(fmt.Sprintf("operation %s: its items have no key, and it is read in pages", d.ID))
	}
	for _, name := range endNames {
		if shapeOf(d.Gives).fields[name] != nil {
			panic(fmt.Sprintf("operation %s: an item with a member %q is taken for the end of the listing", d.ID, name))
		}
	}
	return d
}

// describe reads a request's tags. A request that does not fit its path is a mistake of the
// program, found when it starts.
func describe(id, method, path, text string, asks, gives reflect.Type) *Description {
	d := &Description{ID: id, Method: method, Path: path, Text: text, Asks: asks, Gives: gives, Role: caller.Admin}
	for _, f := range reflect.VisibleFields(d.Asks) {
		for _, in := range []string{InPath, InQuery, InBody, InHeader} {
			if name, ok := f.Tag.Lookup(in); ok {
				d.Params = append(d.Params, Param{name, in, f})
			}
		}
	}
	for _, part := range strings.Split(path, "/") {
		name, wild := strings.CutPrefix(part, "{")
		if wild && !slices.ContainsFunc(d.Params, func(p Param) bool { return p.In == InPath && p.Name+"}" == name }) {
			panic(fmt.Sprintf("operation %s: its request has no field for %s", id, part))
		}
	}
	return d
}

// A method of Description is one of each operation too, a hundred times. These are functions.

// Full is the path of an operation, with {wildcards}.
func Full(d *Description) string { return Prefix + d.Path }

// Pattern is the route of an operation in a http.ServeMux: the path of discovery, which is Prefix, is of
// no other paths.
func Pattern(d *Description) string {
	if d.Path == "" {
		return d.Method + " " + Prefix + "{$}"
	}
	return d.Method + " " + Full(d)
}

// Body is the parameter that is the body; nil: it has none.
func (d *Description) Body() *Param {
	if i := slices.IndexFunc(d.Params, func(p Param) bool { return p.In == InBody }); i >= 0 {
		return &d.Params[i]
	}
	return nil
}

// Optional says whether a body may be empty.
func (p *Param) Optional() bool { _, ok := p.Field.Tag.Lookup("optional"); return ok }

// Paged says whether the listing can be read in pages.
func (d *Description) Paged() bool {
	return d.Lines && reflect.PointerTo(d.Asks).Implements(reflect.TypeFor[paged]())
}

// Tagged says whether the answer has an ETag.
func (d *Description) Tagged() bool {
	return !d.Lines && !d.Events && d.Gives.Implements(reflect.TypeFor[Versioned]())
}

// Bounds are the least and the most that a count may be; ok: there are any.
func (p *Param) Bounds() (least, most int, ok bool) {
	n, _ := fmt.Sscanf(p.Field.Tag.Get("bounds"), "%d-%d", &least, &most)
	return least, most, n == 2
}

// names are those of the query's parameters.
func (d *Description) names() (ns []string) {
	for _, p := range d.Params {
		if p.In == InQuery {
			ns = append(ns, p.Name)
		}
	}
	return ns
}

// Allowed are the values that a parameter may have; none: any.
func (p *Param) Allowed() []string {
	return slices.DeleteFunc(strings.Split(p.Field.Tag.Get("enum"), ","), func(s string) bool { return s == "" })
}

// How many bytes a form may have, and a JSON object that says what is asked.
const (
	MaxForm = 4 << 20
	MaxJSON = 64 << 10
)

// MaxBody is how many bytes a request's body or form may have.
func (d *Description) MaxBody() int64 {
	if p := d.Body(); p != nil {
		return p.bytes()
	}
	return MaxForm
}

// bytes is how large a body may be, of its tag mib. A JSON object that is read as a whole says what
// is asked, and is small.
func (p *Param) bytes() int64 {
	var n int64
	if _, err := fmt.Sscan(p.Field.Tag.Get("mib"), &n); err != nil {
		return MaxJSON
	}
	return n << 20
}

// JSON is JSON that is kept as it came, or as somebody else wrote it, in the form of T.
type JSON[T any] []byte

// MarshalJSON is the same.
func (j JSON[T]) MarshalJSON() ([]byte, error) { return j, nil }

// UnmarshalJSON keeps it.
func (j *JSON[T]) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0], b...)
	return nil
}

// Form is T.
func (JSON[T]) Form() reflect.Type { return reflect.TypeFor[T]() }

// WithOwnKey is an operation that lets an IdempotencyKey into what it makes.
func (o Operation[Q, A]) WithOwnKey() Operation[Q, A] {
	o.OwnKey = true
	return o
}

// AsIngest is an operation that takes events in.
func (o Operation[Q, A]) AsIngest() Operation[Q, A] {
	o.Ingest = true
	return o
}

// AsRead is an operation that changes nothing, though its request is a POST.
func (o Operation[Q, A]) AsRead() Operation[Q, A] {
	o.Reads = true
	return o
}

// WithSecret is an operation whose request or answer has a secret.
func (o Operation[Q, A]) WithSecret() Operation[Q, A] {
	o.Secret = true
	return o
}

// WithLogin is an operation that needs a fresh login: somebody who finds a browser open cannot give
// themselves more, nor take away what does not come back.
func (o Operation[Q, A]) WithLogin() Operation[Q, A] {
	o.Fresh = true
	return o
}

// WithKey is an operation that is refused without an IdempotencyKey: done twice it would do harm.
func (o Operation[Q, A]) WithKey() Operation[Q, A] {
	o.NeedsKey = true
	return o
}

// Put describes an operation that replaces something by the body of its request.
func Put[Q, A any](id, path, text string) Operation[Q, A] {
	return Operation[Q, A]{describe(id, http.MethodPut, path, text, reflect.TypeFor[Q](), reflect.TypeFor[A]())}
}

// Editing is an operation that edits what another one shows, of the same parameters.
func Editing[Q, A any](o Operation[Q, A], shows *Description) Operation[Q, A] {
	o.Edits = shows
	return o
}

// For is an operation that a role may do already, and not admins alone.
func (o Operation[Q, A]) For(r caller.Role) Operation[Q, A] {
	o.Role = r
	return o
}

// OfEach is an operation that concerns things of several systems. Who does it looks no further than
// the caller may.
func (o Operation[Q, A]) OfEach() Operation[Q, A] {
	o.System = Each
	return o
}

// OfEach is a listing of things of several systems. Who lists looks no further than the caller may.
func (l Listing[Q, A]) OfEach() Listing[Q, A] {
	l.System = Each
	return l
}

// AsExport is a listing of what may be of people: the audit trail has who has read all of it.
func (l Listing[Q, A]) AsExport() Listing[Q, A] {
	l.Exports = true
	return l
}

// For is a listing that a role may read already, and not admins alone.
func (l Listing[Q, A]) For(r caller.Role) Listing[Q, A] {
	l.Role = r
	return l
}
