package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/preflight"
)

type configCheckCmd struct {
	command.Settings
	Systems []string `arg:"" optional:"" name:"system" help:"Systems to check, of ${systems}. Default: the setting systems (TIDEMILL_SYSTEMS), or all."`
	Contact bool     `help:"Contact the servers of what would run, too, and check them as tidemill doctor does. What a start sets up there (tables, topics) is set up. No event is touched."`
	JSON    bool     `help:"Print JSON."`
}

func (c *configCheckCmd) Run(ctx context.Context, e command.Env) error {
	flags := map[string]string{}
	if err := named(e.Table, c.Systems, flags); err != nil {
		return err
	}
	cfg, err := c.Read(e, flags)
	if err = errors.Join(err, e.Table.Check(cfg, mayRun(e, cfg))); err != nil {
		err = command.WrongConfig{Err: err}
	}
	warned := command.Warnings(e, cfg)
	var found []preflight.Finding
	if c.Contact && err == nil {
		if found, err = contacted(ctx, e, cfg); err != nil {
			return err
		}
	}
	failed := failures(found)
	if c.JSON {
		mistakes := []string{}
		for _, m := range command.MistakesOf(err) {
			mistakes = append(mistakes, m.Error())
		}
		out := map[string]any{"ok": err == nil && failed == nil, "mistakes": mistakes, "warnings": warned}
		if c.Contact {
			out["findings"] = append([]preflight.Finding{}, found...)
		}
		return errors.Join(command.PrintJSON(e.Out, out), err, failed)
	}
	for _, w := range warned {
		_, _ = fmt.Fprintln(e.Err, "tidemill: warning:", w)
	}
	printFindings(e, found)
	if err = errors.Join(err, failed); err == nil {
		_, err = fmt.Fprintln(e.Out, "The configuration is right.")
	}
	return err
}

// contacted looks at the servers of the systems that would run.
func contacted(ctx context.Context, e command.Env, cfg *config.Loaded) ([]preflight.Finding, error) {
	return connect.Contact(ctx, e.Table, cfg, connect.Options{Version: e.Version, Systems: e.Table.Configured(cfg), Log: command.Logger(cfg.Log, e, true)})
}

// printFindings prints what the doctor found.
func printFindings(e command.Env, found []preflight.Finding) {
	for _, f := range found {
		_, _ = fmt.Fprintf(e.Out, "%-5s %s: %s\n", f.Verdict, f.Check, f.Detail)
		if f.Advice != "" {
			_, _ = fmt.Fprintf(e.Out, "      %s\n", f.Advice)
		}
	}
}

// failures says how many checks failed; nil: none.
func failures(found []preflight.Finding) error {
	failed := 0
	for _, f := range found {
		if f.Verdict == preflight.Fail {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d checks failed", failed)
	}
	return nil
}
