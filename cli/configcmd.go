package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type initCmd struct {
	File  string `arg:"" optional:"" default:"tidemill.yaml" help:"Where to write it."`
	Force bool   `help:"Overwrite an existing file."`
}

func (c *initCmd) Run(e command.Env) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(c.File, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: --force overwrites it", c.File)
	} else if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, "# Every setting with its default. Leave out what you do not change.\n\n")
	if err := errors.Join(err, e.Table.Settings().WriteReference(f), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Out, "Wrote %s. `tidemill config check` checks it, `tidemill run` uses it.\n", c.File)
	return err
}

type configCmd struct {
	Check     configCheckCmd     `cmd:"" help:"Check the configuration; name every mistake with its place."`
	Show      configShowCmd      `cmd:"" help:"Show the configuration in force and where each setting comes from."`
	Test      configTestCmd      `cmd:"" help:"Run events through what the configuration decides, and compare with what is expected. Nothing is sent."`
	Diff      configDiffCmd      `cmd:"" help:"Show which events another configuration would treat otherwise. The exit status is 1 if there are any, 2 if they cannot be compared."`
	Reference configReferenceCmd `cmd:"" help:"Explain every setting: default, what is allowed, environment variable."`
}

// mayRun are the systems that were named, and all where none was.
func mayRun(e command.Env, cfg *config.Loaded) []string {
	if len(cfg.Systems) > 0 {
		return cfg.Systems
	}
	return e.Table.Names()
}

type configShowCmd struct {
	command.Remote
	Running bool `help:"Show that of the running instance, with what the database describes beside its file."`
}

func (c *configShowCmd) Run(ctx context.Context, e command.Env) error {
	if c.Running {
		if c.JSON {
			return command.UsageError{Err: errors.New("the configuration of an instance is text: leave out --json")}
		}
		return c.Ask(ctx, e, func(a *command.Client) (err error) {
			in, err := api.GetConfig.Body(ctx, &a.Client, &operation.None{})
			if err == nil {
				_, err = io.Copy(command.AsBytes(e.Out), in)
				err = errors.Join(err, in.Close())
			}
			return err
		})
	}
	cfg, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	for _, w := range command.Warnings(e, cfg) {
		_, _ = fmt.Fprintln(e.Err, "tidemill: warning:", w)
	}
	for _, name := range mayRun(e, cfg) { // who does without it is not disturbed
		for _, m := range command.MistakesOf(e.Table.Check(cfg, []string{name})) {
			_, _ = fmt.Fprintf(e.Err, "tidemill: the system %s would not start: %v\n", name, m)
		}
	}
	if !c.JSON {
		return cfg.Write(command.AsBytes(e.Out))
	}
	out := map[string]map[string]string{}
	for _, f := range cfg.Fields() {
		out[f.Path] = map[string]string{"value": f.String(), "from": cfg.From[f.Path]}
	}
	return command.PrintJSON(e.Out, out)
}

type configReferenceCmd struct {
	Setting string `arg:"" optional:"" help:"One setting, a group of them, or an environment variable. Default: all."`
	JSON    bool   `help:"Print JSON."`
}

func (c *configReferenceCmd) Run(e command.Env) error {
	if !c.JSON {
		return e.Table.Settings().Explain(e.Out, c.Setting)
	}
	all, err := e.Table.Settings().ReferenceOf(c.Setting)
	parts := e.Table.Settings().PartsOf(c.Setting)
	if err != nil && len(parts) == 0 {
		return err
	}
	type setting struct {
		Name    string   `json:"name"`
		Default string   `json:"default"`
		Help    string   `json:"help"`
		Allow   string   `json:"allow,omitempty"`
		Env     []string `json:"env,omitempty"`
		Flag    string   `json:"flag,omitempty"`
		Reload  bool     `json:"reload,omitempty"` // a reload applies it
	}
	out := []setting{}
	for _, f := range all {
		out = append(out, setting{f.Path, f.Default, f.Help, f.Allow, f.Env, f.Flag, f.Reload})
	}
	for _, p := range parts {
		out = append(out, setting{Name: p.Path, Help: p.Help, Allow: p.Form, Reload: p.Reload})
	}
	return command.PrintJSON(e.Out, out)
}
