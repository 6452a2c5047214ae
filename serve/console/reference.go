package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

// described is an operation in the reference.
type described struct{ operation.Handler }

// Help is what a parameter is.
func (d described) Help(p operation.Param) string { return p.Field.Tag.Get("help") }

// Full is its path.
func (d described) Full() string { return operation.Full(d.Description) }

// At is its page.
func (d described) At() string { return page.Address("reference", d.ID) }

func showReference(v *page.Visit) (*page.View, error) {
	type group struct {
		Name string
		All  []described
	}
	var groups []*group
	for _, o := range v.Operations {
		tag, _, _ := strings.Cut(cmp.Or(o.Path, "api"), "/")
		i := slices.IndexFunc(groups, func(g *group) bool { return g.Name == tag })
		if i < 0 {
			groups, i = append(groups, &group{Name: tag}), len(groups)
		}
		groups[i].All = append(groups[i].All, described{o})
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return strings.Compare(a.Name, b.Name) })
	return &page.View{File: "reference", Title: "Reference of the API", Section: "reference", Body: map[string]any{"Groups": groups, "Problems": operation.ProblemKinds}}, nil
}

// tryPage is an operation with a form: a read is tried, of a change the form makes the command and the request.
type tryPage struct {
	described
	Reads  bool         // it can be tried here
	May    bool         // by the caller
	Inputs []page.Input // its parameters, as they are filled in
	CLI    string       // the command that asks for the same; empty: the form was not filled in
	Same   string       // the request; its path alone where the form does not make one
	Wrong  *operation.Problem
	Answer *page.Payload // of a read; nil: it was not tried
	Cut    bool          // there is more of it than is shown
}

// mostTried is how much of an answer is shown.
const mostTried = 64 << 10

// showOperationTry is the page of an operation of the reference.
func showOperationTry(v *page.Visit) (*page.View, error) {
	i := slices.IndexFunc(v.Operations, func(h operation.Handler) bool { return h.ID == v.R.PathValue("operation") })
	if i < 0 {
		return nil, operation.Refuse(http.StatusNotFound, "The API has no operation %.60q: the reference lists all.", v.R.PathValue("operation"))
	}
	p := &tryPage{described: described{v.Operations[i]}, May: v.May(v.Operations[i].ID)}
	p.Reads = p.Method == http.MethodGet && !p.Events && !p.Secret
	given := v.Query()
	p.fill(given)
	if given.Has("try") {
		p.try(v)
	}
	return &page.View{File: "try", Title: p.ID, Section: "reference", Crumbs: []page.Link{{Text: "Reference", Href: page.Address("reference")}}, Body: p}, nil
}

// fill makes the form: a field for each parameter that can be asked for in a line.
func (p *tryPage) fill(given url.Values) {
	for i := range p.Params {
		one := &p.Params[i]
		if one.In == operation.InBody || one.In == operation.InHeader || one.Name == "follow" || p.Paged() && one.Name == "max" { // a page has no end of its own
			continue
		}
		in := page.Input{Name: one.Name, Label: one.Name, Value: given.Get(one.Name), Help: p.Help(*one), Optional: one.In != operation.InPath, Auto: "off"}
		if choices := one.Allowed(); len(choices) > 0 {
			in.Choices = append([]string{""}, choices...)
		} else if one.Field.Type.Kind().String() == "bool" {
			in.Choices = []string{"", "true", "false"}
		}
		p.Inputs = append(p.Inputs, in)
	}
}

// try makes the request of the form, and asks for it where it is a read.
func (p *tryPage) try(v *page.Visit) {
	fields, words := url.Values{}, []string{"api", p.ID}
	for _, in := range p.Inputs {
		if in.Value != "" {
			fields.Set(in.Name, in.Value)
			words = append(words, "--"+strings.ToLower(in.Name), in.Value)
		}
	}
	if p.Body() != nil {
		words = append(words, "--body", "@FILE")
	}
	if p.Edits != nil {
		words = append(words, "--if-match", "ETAG")
	}
	if p.Paged() && !fields.Has("limit") {
		fields.Set("limit", "10")
		words = append(words, "--limit", "10")
	}
	p.CLI = page.Command(words...)
	q, err := operation.Request(p.Description, fields, nil)
	if p.Same = page.RequestOf(p.Description, q); err == nil && p.Reads && p.May {
		err = p.ask(v, q)
	}
	p.Wrong = page.Problem(err)
}

// ask shows what a read is answered.
func (p *tryPage) ask(v *page.Visit, q any) error {
	ctx, cancel := v.Context()
	defer cancel()
	var out upTo
	err := operation.Print(ctx, p.Description, v.API, q, &out)
	if p.Cut = errors.Is(err, errFull); p.Cut || errors.Is(err, context.Canceled) {
		err = nil
	}
	if _, early := errors.AsType[*operation.Rest](err); early {
		p.Cut, err = true, nil
	}
	if err == nil {
		p.Answer = page.NewPayload(out.has.String(), "", "")
	}
	return err
}

// upTo keeps the first bytes of an answer.
type upTo struct{ has bytes.Buffer }

var errFull = errors.New("the answer is larger than what is shown")

func (u *upTo) Write(b []byte) (int, error) {
	if left := mostTried - u.has.Len(); len(b) > left {
		u.has.Write(b[:left])
		return left, errFull
	}
	return u.has.Write(b)
}
