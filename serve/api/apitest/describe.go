// Package apitest writes down what operations say of themselves: the OpenAPI document of a system, or of
// all, and the reference for people.
package apitest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// object is one in JSON; its names are sorted when it is written.
type object = map[string]any

// describer makes the OpenAPI document of operations: of their types, and of the comments in the
// source of these.
type describer struct {
	t        testing.TB
	comments map[string]string // of types (package path and name) and of their fields
	read     map[string]bool   // packages
	schemas  object
	patch    bool // of a merge patch: any part of a value, and null for what is taken away
	examples Examples
}

// partOf is how the name of a schema ends that is for a part of the other's value.
const partOf = "Patch"

func newDescriber(t testing.TB) *describer {
	return &describer{t: t, comments: map[string]string{}, read: map[string]bool{}, schemas: object{}}
}

// module is the path that packages of this module begin with.
const module = "github.com/tidemill/tidemill/"

// comment is what the source says of a type, or of a field of it.
func (d *describer) comment(t reflect.Type, field string) string {
	rel, ours := strings.CutPrefix(t.PkgPath(), module)
	if ours && !d.read[rel] {
		d.read[rel] = true
		files, err := filepath.Glob(filepath.Join(root(d.t), filepath.FromSlash(rel), "*.go"))
		if err != nil {
			d.t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				d.t.Fatal(err)
			}
			d.comments[t.PkgPath()] += "" // there is one
			d.keep(t.PkgPath(), f)
		}
	}
	return d.comments[strings.TrimSuffix(t.PkgPath()+"."+t.Name()+"."+field, ".")]
}

// keep keeps the comments of a file's structs.
func (d *describer) keep(path string, f *ast.File) {
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t := s.(*ast.TypeSpec)
			name := path + "." + t.Name.Name
			d.comments[name] = text(t.Doc, g.Doc)
			of, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range of.Fields.List {
				for _, n := range f.Names {
					d.comments[name+"."+n.Name] = text(f.Doc, f.Comment)
				}
			}
		}
	}
}

// text is the first of the comments that says something, as one line.
func text(of ...*ast.CommentGroup) string {
	for _, c := range of {
		if s := strings.Join(strings.Fields(c.Text()), " "); s != "" {
			return s
		}
	}
	return ""
}

// Types that are written as something else than what they are made of.
var (
	times     = reflect.TypeFor[time.Time]()
	uuids     = reflect.TypeFor[uuid.UUID]()
	raws      = reflect.TypeFor[json.RawMessage]()
	asText    = reflect.TypeFor[encoding.TextMarshaler]()
	documents = reflect.TypeFor[operation.Document]()
	payloads  = reflect.TypeFor[operation.Payload]()
)

// schema is that of a type in JSON.
func (d *describer) schema(t reflect.Type) object {
	if of, ok := reflect.Zero(t).Interface().(interface{ Form() reflect.Type }); ok {
		return d.schema(of.Form())
	}
	switch {
	case t == times:
		return object{"type": "string", "format": "date-time"}
	case t == uuids:
		return object{"type": "string", "format": "uuid"}
	case t == raws:
		return object{}
	case t.Kind() != reflect.Pointer && t.Implements(asText):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint8, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": d.field(nil, reflect.StructField{Type: t.Elem()}, true)}
	case reflect.Struct:
		return d.named(t)
	}
	d.t.Fatalf("no schema is known for %v", t)
	return nil
}

// named refers to the schema of a struct.
func (d *describer) named(t reflect.Type) object {
	name := t.Name()
	if pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]; !strings.HasSuffix(pkg, "api") && pkg != "operation" {
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	if d.patch {
		name += partOf
	}
	ref := object{"$ref": "#/components/schemas/" + name}
	if _, ok := d.schemas[name]; ok {
		return ref
	}
	s := object{}
	d.schemas[name] = s // it may have itself
	if c := d.comment(t, ""); c != "" {
		s["description"] = c
	}
	if of, ok := reflect.Zero(t).Interface().(interface{ OneOf() []any }); ok {
		var all []any
		for _, v := range of.OneOf() {
			all = append(all, d.schema(reflect.TypeOf(v)))
		}
		s["oneOf"] = all
		return ref
	}
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if !ok || name == "-" {
			continue
		}
		left := strings.Contains(options, "omit") || behindPointer(t, f.Index)
		if properties[name] = d.field(owner(t, f.Index), f, left); !left {
			required = append(required, name)
		}
	}
	if s["type"], s["properties"] = "object", properties; len(required) > 0 && !d.patch {
		s["required"] = required
	}
	return ref
}

// field is the schema of a field of a struct. One that is not left out may be null where it is a
// pointer.
func (d *describer) field(of reflect.Type, f reflect.StructField, left bool) object {
	s := d.schema(f.Type)
	switch {
	case d.patch:
		if kind, ok := s["type"]; ok {
			s["type"] = []any{kind, "null"}
		} else {
			s = object{"anyOf": []any{s, object{"type": "null"}}}
		}
	case left:
	case f.Type.Kind() == reflect.Pointer:
		s["type"] = []any{s["type"], "null"}
	case f.Type.Kind() == reflect.Slice && s["type"] == "array": // Go writes an empty one so, if it was never made
		s["type"] = []any{"array", "null"}
	}
	if of == nil {
		return s
	}
	if c := d.comment(of, f.Name); c != "" {
		s["description"] = c
	}
	return s
}

// behindPointer says whether a field is one of an embedded pointer, which may be nil.
func behindPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		f := t.Field(i)
		if t = f.Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// owner is the struct that has the field itself.
func owner(t reflect.Type, index []int) reflect.Type {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return t
}

// concerned is for which systems the role of an operation has to be.
func concerned(o *operation.Description) string {
	if o.System == "" {
		return "all"
	}
	return o.System
}

// operation describes one.
func (d *describer) operation(o *operation.Description) object {
	done := object{"description": "Done.", "content": d.exemplify(o, ofAnswer, d.answer(o))}
	if o.Tagged() {
		done["headers"] = object{"ETag": object{"$ref": "#/components/headers/ETag"}}
	}
	responses := object{d.status(o): done, "default": object{"$ref": "#/components/responses/Problem"}}
	out := object{"operationId": o.ID, "summary": o.Text, "responses": responses, "x-role": o.Role.String(), "x-systems": concerned(o), "x-cost": o.Cost.String()}
	if o.Fresh {
		out["x-fresh-login"] = true
	}
	if o.Exports {
		out["x-export"] = true
	}
	if g := o.Going; g != nil {
		out["deprecated"], out["x-deprecated"], out["x-sunset"], out["description"] = true, g.Since.Format(time.DateOnly), g.Ends.Format(time.DateOnly), g.String()
	}
	var parameters []any
	for i := range o.Params {
		p := &o.Params[i]
		if p.In == operation.InHeader {
			parameters = append(parameters, object{"$ref": "#/components/parameters/" + p.Name})
			for _, status := range []string{"412", "428"} {
				responses[status] = object{"$ref": "#/components/responses/Problem"}
			}
			continue
		}
		if p.In == operation.InBody {
			out["requestBody"] = object{"required": !p.Optional(), "content": d.exemplify(o, ofBody, object{p.Name: object{"schema": d.body(p)}})}
			continue
		}
		one := object{"name": p.Name, "in": p.In, "schema": d.parameter(p)}
		if p.In == operation.InPath {
			one["required"] = true
		}
		if help := p.Field.Tag.Get("help"); help != "" {
			one["description"] = help
		}
		parameters = append(parameters, one)
	}
	if o.NeedsKey {
		parameters = append(parameters, header(onceText, keyPattern, operation.IdempotencyKey, true))
	} else if o.Method != http.MethodGet && !o.OwnKey && !o.Secret { // which says its own
		parameters = append(parameters, object{"$ref": "#/components/parameters/" + operation.IdempotencyKey})
	}
	if o.Tagged() && o.Method == http.MethodGet {
		responses["304"] = object{"description": "It is as it was."}
		parameters = append(parameters, object{"$ref": "#/components/parameters/" + operation.IfNoneMatch})
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	return out
}

// body is the schema of a request's body.
func (d *describer) body(p *operation.Param) object {
	switch t := p.Field.Type; {
	case t.Kind() == reflect.Interface:
		return object{} // bytes
	case t.Kind() == reflect.Slice && t.Name() == "":
		return object{} // bytes, and of events one or an array, each judged by itself
	case p.Name == "application/merge-patch+json":
		parts := *d
		parts.patch = true
		return parts.schema(t)
	default:
		return d.schema(t)
	}
}

// parameter is the schema of a parameter.
func (d *describer) parameter(p *operation.Param) object {
	s := d.schema(p.Field.Type)
	if p.Field.Type.Kind() == reflect.Int {
		s["minimum"] = 0
	}
	if least, most, ok := p.Bounds(); ok {
		s["minimum"], s["maximum"] = least, most
	}
	if allowed := p.Allowed(); len(allowed) > 0 {
		s["enum"] = allowed
	}
	if form := p.Field.Tag.Get("form"); form != "" {
		s["format"] = form
	}
	if usual := p.Field.Tag.Get("default"); usual != "" {
		s["default"] = usual
		if p.Field.Type.Kind() == reflect.Int {
			s["default"] = json.Number(usual)
		}
	}
	return s
}

// keyPattern is what an Idempotency-Key looks like.
const keyPattern = "^[ -~]{1,255}$"

// onceText says what an Idempotency-Key does.
const onceText = "Have the change made once: the same request with the same key is given the first answer again, for 24 hours, whichever instance is asked. " +
	"While it is worked on, and where nobody knows how it ended, the answer is 409; another request with the key is refused with 422. What was refused as a whole has not used its key."

// Document is the OpenAPI document of operations, of their types, of the comments in the source of
// these, and of examples; nil: it has none.
func Document(t testing.TB, all []operation.Handler, examples Examples) []byte {
	t.Helper()
	d := newDescriber(t)
	d.examples = examples
	b, err := json.MarshalIndent(d.document(all), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(d.filled(b, all), '\n')
}

// root is the folder of the module that is tested.
func root(t testing.TB) string {
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if abs, err := filepath.Abs(dir); err != nil || abs == filepath.Dir(abs) {
			t.Fatal("no go.mod above the test")
		}
	}
}

// tagText says what an ETag is of.
const tagText = "Of what can be changed: the payload of a job or of a dead letter, the settings of a queue, the role of a user. The member etag has it too, without quotes. Where something of a payload is covered for its reader, the ETag is that of what is shown: it does not tell who guesses the rest, and it stays where only the rest is changed. The header of a read has a point and a sum of the whole answer behind it, unless it is a payload alone: as an If-None-Match it is of all that the answer has, as an If-Match of what can be changed."

// noneMatchText says what an If-None-Match does.
const noneMatchText = "The ETag of an answer that its reader has: where the answer is still the same, it is 304 without a body."

// matchText says what an If-Match does.
const matchText = "Change only what was read: the ETag that the answer had. What has another one now was changed meanwhile; it is left as it is, and the answer is 412. Without it, the answer is 428; * changes whatever is there. The answer 412 has in now what is there, as a read shows it. " +
	"A payload that is there already is no change."

// header is one of a request.
func header(text, pattern, name string, required bool) object {
	h := object{"name": name, "in": "header", "description": text, "schema": object{"type": "string", "pattern": pattern}}
	if required {
		h["required"] = true
	}
	return h
}

// page is the type of what a browser is shown.
const page = "text/html; charset=utf-8"

// document is the whole.
func (d *describer) document(all []operation.Handler) object {
	paths := object{}
	for _, h := range all {
		path := operation.Full(h.Description)
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path].(object)[strings.ToLower(h.Method)] = d.operation(h.Description)
	}
	problem := object{operation.ProblemType: object{"schema": d.schema(reflect.TypeFor[operation.Problem]())}, page: object{"schema": object{"type": "string", "description": "For a browser, which asks for HTML."}}}
	var types []string
	for _, k := range operation.ProblemKinds {
		types = append(types, k.Type)
	}
	d.schemas["Problem"].(object)["properties"].(object)["type"].(object)["enum"] = types
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Tidemill", "version": "1", "description": fmt.Sprint(
			"The API for operators. A listing answers with an object: items, and as_of, when they were read. Where it has the parameters limit and cursor it is a page, of 50 where no limit is given: next is the cursor of the page after it, and previous that of the page before it. What stays is in one page, whatever comes and goes meanwhile. Other listings are whole. looked says that it ends early. ",
			"Who asks for ", operation.LinesType, " (header Accept) gets all that matches, or as many as max says, a JSON object a line. The last line is {\"whole\": {\"items\": N}}, which no item can be taken for, with looked beside items where it ends early, or {\"problem\": …} where it could not go on; one without either was cut off, unless it goes on as long as somebody listens. limit, cursor and count are of pages, and max is of lines: the other one is refused. ",
			"What a POST without a body asks may come in its form too. Parameters, fields of a body and values that are not known are refused, with the nearest that there is. ",
			"The member x-role of an operation is the role that it needs: an operator may do what a viewer may, and an admin everything. "+
				"The member x-systems says for which systems it has to be: for the one that is named, for all, or each: the operation shows and changes what is of the systems that it is for. ",
			"With the member x-export all lines of a listing, or its format=export, are an export, which is for operators and in the audit trail; pages, and up to 1000 lines (max), are not. An exact count is for operators too. ",
			"The member x-cost is what it takes: cheap, normal or dear. A caller has one dear request done at a time, and an instance four, as admin.rates sets it; so is one that asks for an exact count, or for all lines of a listing that can be read in pages. ",
			"Each caller has so many reads and changes a second; the fields RateLimit-Policy and RateLimit of an answer say how many are left, and one too many is answered 429 with Retry-After.")},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}},
		"paths":    paths,
		"components": object{
			"schemas": d.schemas,
			"parameters": object{
				operation.IdempotencyKey: header(onceText, keyPattern, operation.IdempotencyKey, false),
				operation.IfMatch:        header(matchText, `^("[!#-~]+"|\*)$`, operation.IfMatch, true),
				operation.IfNoneMatch:    object{"name": operation.IfNoneMatch, "in": "header", "description": noneMatchText, "schema": object{"type": "string"}},
			},
			"headers":         object{"ETag": object{"description": tagText, "schema": object{"type": "string"}}},
			"responses":       object{"Problem": object{"description": "It was not done, or not all of it.", "content": problem}},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "`tidemill token` prints it."}},
		},
	}
}
