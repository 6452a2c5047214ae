package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// Description is the commands that show and change what is described beside the file. A command
// of a kind embeds one, and says which kind it is of.
type (
	// ListDescribed lists them.
	ListDescribed struct{ Remote }
	// ShowDescribed shows one.
	ShowDescribed struct {
		Remote
		api.OneDescription
	}
	// AddDescribed makes one.
	AddDescribed struct {
		Remote
		api.OneDescription
		Given
		api.Checking
	}
	// ChangeDescribed changes one.
	ChangeDescribed struct {
		Remote
		api.OneDescription
		Given
		api.Checking
		api.Seen
	}
	// RemoveDescribed removes one.
	RemoveDescribed struct {
		Remote
		api.DescriptionRemoval
	}
)

// Given are settings, of a file and of flags.
type Given struct {
	File string   `arg:"" optional:"" help:"A file with its settings, as one stands in the configuration, in YAML or JSON; -: the standard input."`
	Set  []string `help:"One setting: timeout=5s, auth.type=bearer; the value as in YAML. May be repeated; goes before the file." sep:"none" placeholder:"NAME=VALUE"`
}

// maxGiven is how many bytes of settings are read.
const maxGiven = 64 << 10

// read are the settings as a JSON object.
func (g *Given) read(e Env) ([]byte, error) {
	all := map[string]any{}
	if g.File != "" {
		in := e.In
		if g.File != "-" {
			f, err := os.Open(g.File)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }() // it was read only
			in = f
		}
		text, err := io.ReadAll(io.LimitReader(in, maxGiven))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(text, &all); err != nil {
			return nil, fmt.Errorf("%s is no YAML with names and values, such as endpoint: https://partner.example/events", g.File) // which may have keys
		}
	} else if len(g.Set) == 0 {
		return nil, UsageError{Err: errors.New("say what its settings are: a file, or --set")}
	}
	for _, s := range g.Set {
		name, text, ok := strings.Cut(s, "=")
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); !ok || err != nil {
			return nil, UsageError{Err: fmt.Errorf("--set %s: want NAME=VALUE, with a value as in YAML", name)}
		}
		patch := value
		path := strings.Split(name, ".")
		for n := len(path) - 1; n > 0; n-- {
			patch = map[string]any{path[n]: patch}
		}
		if under, is := all[path[0]].(map[string]any); is && len(path) > 1 {
			patch = config.Merged(under, patch)
		}
		all[path[0]] = patch
	}
	return json.Marshal(all)
}

// List lists those of a kind.
func (c *ListDescribed) List(ctx context.Context, e Env, kind string) error {
	t := Table{Head: "NAME\tFROM\tCHANGED\tBY", None: "None."}
	return List(ctx, e, c, api.ListDescriptions, &api.DescriptionsOf{Kind: kind}, &t, func(d *api.Description) []string {
		return []string{d.Name, d.From, Stamp(d.Changed), d.By}
	})
}

// Show shows one of a kind.
func (c *ShowDescribed) Show(ctx context.Context, e Env, kind string) error {
	c.Kind = kind
	return Show(ctx, e, c, api.GetDescription, &c.OneDescription, func(_ *Client, d *api.Description) error { return printDescription(e, d) })
}

func printDescription(e Env, d *api.Description) error {
	from := d.From
	if d.ETag != "" {
		from += fmt.Sprintf(", changed by %s at %s (etag %s)", d.By, Stamp(d.Changed), d.ETag)
	}
	text, err := yaml.JSONToYAML(d.Is)
	if err == nil {
		_, err = fmt.Fprintf(e.Out, "# from %s\n%s", Printable(from), strings.TrimSuffix(string(text), "\n")+"\n")
	}
	return err
}

// Add makes one of a kind.
func (c *AddDescribed) Add(ctx context.Context, e Env, kind string) error {
	c.Kind = kind
	body, err := c.read(e)
	if err != nil {
		return err
	}
	return changed(ctx, e, c, api.AddDescription, &api.DescriptionText{OneDescription: c.OneDescription, Checking: c.Checking, Body: body}, "added")
}

// Change changes one of a kind.
func (c *ChangeDescribed) Change(ctx context.Context, e Env, kind string) error {
	c.Kind = kind
	body, err := c.read(e)
	if err != nil {
		return err
	}
	return changed(ctx, e, c, api.ChangeDescription, &api.DescriptionPatch{OneDescription: c.OneDescription, Checking: c.Checking, Seen: c.Seen.OrWhatever(), Body: body}, "changed")
}

// Remove removes one of a kind.
func (c *RemoveDescribed) Remove(ctx context.Context, e Env, kind string) error {
	c.Kind, c.Seen = kind, c.Seen.OrWhatever()
	return changed(ctx, e, c, api.RemoveDescription, &c.DescriptionRemoval, "removed")
}

// changed changes a description, and fails where an instance does not have the change in force.
func changed[Q any](ctx context.Context, e Env, c Asker, op operation.Operation[Q, api.DescriptionChanged], q *Q, what string) error {
	return c.Ask(ctx, e, func(a *Client) error {
		d, err := Shown(ctx, e, c, a, op, q, func(d *api.DescriptionChanged) error { return printChange(e, what, d) })
		if err != nil {
			return err
		}
		return spread(&d)
	})
}

func printChange(e Env, what string, d *api.DescriptionChanged) error {
	if len(d.Instances) == 0 {
		what = "not " + what + ", only checked"
	}
	_, _ = fmt.Fprintf(e.Out, "The %s %s is %s.\n", d.Kind, Printable(d.Name), what)
	return PrintChanges(e.Out, map[bool]string{true: "It would change:", false: "Changed:"}[len(d.Instances) == 0], d.Changes)
}

// spread names the instances that do not have a change in force.
func spread(d *api.DescriptionChanged) error {
	var not []string
	for _, i := range d.Instances {
		name := Printable(i.Host + " (" + i.ID + ")")
		switch i.State {
		case "refused":
			not = append(not, name+" refuses it, and goes on as before: "+PrintableLines(i.Why))
		case "waiting":
			not = append(not, name+" has not said so within 10 seconds: it goes on as before, or is gone (GET /api/v1/instances, or the page Instances of the console)")
		}
	}
	if len(not) == 0 {
		return nil
	}
	return fmt.Errorf("it is not in force in all instances:\n  %s", strings.Join(not, "\n  "))
}
