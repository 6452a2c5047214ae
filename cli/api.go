package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/nearest"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type apiCmd struct {
	command.Remote
	IdempotencyKey string   `help:"Make the change once for this key, however often the command runs. Default: one of its own." placeholder:"KEY"`
	Call           []string `arg:"" optional:"" passthrough:"" name:"operation" help:"An operation and its fields: listJobs --name=ingest --state=failed. Flags of this command come before it."`
}

// Help is shown by tidemill api --help.
func (c *apiCmd) Help() string {
	return `Without an operation, all are listed. What is printed is the API's answer, as it came.

  tidemill api listJobs --help
  tidemill api listJobs --name ingest --state failed --limit 5
  tidemill api setQueue --name ingest --if-match '*' --body '{"paused": true}'
  tidemill api addDescription --kind partner --name ads --body @partner.json

A field that is given twice has two values. A body is text, @FILE, or - for standard input.`
}

func (c *apiCmd) Run(ctx context.Context, e command.Env) error {
	all := described(e.Table)
	if len(c.Call) == 0 {
		return c.list(e, all)
	}
	d, err := operationOf(all, c.Call[0])
	if err != nil {
		return err
	}
	if slices.Contains(c.Call[1:], "--help") || slices.Contains(c.Call[1:], "-h") {
		return explainOperation(e.Out, d)
	}
	fields, body, err := fieldsOf(d, c.Call[1:], e.In)
	if err != nil {
		return err
	}
	q, err := operation.Request(d, fields, body)
	if err != nil {
		return fmt.Errorf("%w; `tidemill api %s --help` explains its fields", err, d.ID)
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		to := &a.Client
		if !d.Secret {
			to = a.Once(cmp.Or(c.IdempotencyKey, rand.Text()))
		}
		return command.Ended(e, operation.Print(ctx, d, to, q, command.AsJSON(e.Out)))
	})
}

// described are all operations that instances have.
func described(t system.Table) (all []*operation.Description) {
	for _, h := range admin.New(admin.Parts{Rooms: t.Rooms(nil)}).Operations() {
		all = append(all, h.Description)
	}
	return all
}

func operationOf(all []*operation.Description, id string) (*operation.Description, error) {
	var ids []string
	for _, d := range all {
		if strings.EqualFold(d.ID, id) {
			return d, nil
		}
		ids = append(ids, d.ID)
	}
	return nil, fmt.Errorf("%.100q is no operation: `tidemill api` lists them%s", id, nearest.Said(id, ids))
}

// list prints the operations.
func (c *apiCmd) list(e command.Env, all []*operation.Description) error {
	if c.JSON {
		for _, d := range all {
			one := map[string]string{"id": d.ID, "method": d.Method, "path": operation.Full(d), "text": d.Text, "role": d.Role.String()}
			if d.Going != nil {
				one["going"] = d.Going.String()
			}
			if err := command.PrintJSON(e.Out, one); err != nil {
				return err
			}
		}
		return nil
	}
	t := command.Table{Out: e.Out, Head: "OPERATION\tROLE\tWHAT IT DOES"}
	for _, d := range all {
		text := firstSentence(d.Text)
		if d.Going != nil {
			text = "Goes away. " + text
		}
		if err := t.Row(d.ID, d.Role.String(), text); err != nil {
			return err
		}
	}
	return t.End(nil)
}

// firstSentence is a text up to the end of its first sentence.
func firstSentence(text string) string {
	first, _, more := strings.Cut(text, ". ")
	if more {
		first += "."
	}
	return first
}

// flagOf is how a field is written on the command line.
func flagOf(p *operation.Param) string {
	if p.In == operation.InBody {
		return "body"
	}
	return strings.ToLower(p.Name)
}

// explainOperation prints what an operation does and takes.
func explainOperation(out io.Writer, d *operation.Description) error {
	text := d.Text
	if d.Going != nil {
		text += "\n\n" + d.Going.String()
	}
	if _, err := fmt.Fprintf(out, "%s %s\n\n%s\n\nRole: %s.\n\n", d.Method, operation.Full(d), text, d.Role); err != nil || len(d.Params) == 0 {
		return err
	}
	t := command.Table{Out: out, Head: "FIELD\tWHAT IT IS"}
	for i := range d.Params {
		p := &d.Params[i]
		text := p.Field.Tag.Get("help")
		switch p.In {
		case operation.InPath:
			text = strings.TrimSpace(text + " It has to be there.")
		case operation.InHeader:
			text = "The ETag of what is changed, as reading gave it; * changes whatever is there."
		case operation.InBody:
			text = p.Name + ": text, @FILE, or - for standard input."
		}
		if err := t.Row("--"+flagOf(p), text); err != nil {
			return err
		}
	}
	return t.End(nil)
}

// fieldsOf reads the fields of an operation from the command line: --name value or --name=value.
func fieldsOf(d *operation.Description, args []string, in io.Reader) (fields url.Values, body io.Reader, err error) {
	var flags []string
	for i := range d.Params {
		flags = append(flags, flagOf(&d.Params[i]))
	}
	fields = url.Values{}
	for len(args) > 0 {
		text, is := strings.CutPrefix(args[0], "--")
		name, value, has := strings.Cut(text, "=")
		at := slices.Index(flags, name)
		if !is || at < 0 {
			return nil, nil, fmt.Errorf("%.100q is no field of %s: `tidemill api %s --help` explains them, and flags of this command come before the operation%s", args[0], d.ID, d.ID, nearest.Said(name, flags))
		}
		if args = args[1:]; !has {
			if len(args) == 0 {
				return nil, nil, fmt.Errorf("--%s of %s has no value", name, d.ID)
			}
			value, args = args[0], args[1:]
		}
		p := &d.Params[at]
		if p.In != operation.InBody {
			fields.Add(p.Name, value)
			continue
		}
		if body, err = bodyOf(value, in); err != nil {
			return nil, nil, err
		}
	}
	return fields, body, nil
}

// bodyOf is text, what is in a file, or what is on standard input.
func bodyOf(value string, in io.Reader) (io.Reader, error) {
	path, file := strings.CutPrefix(value, "@")
	switch {
	case value == "-":
		return in, nil
	case file:
		return os.Open(path)
	}
	return strings.NewReader(value), nil
}
