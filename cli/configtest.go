package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/cli/rehearse"
)

// errDifferent makes the exit status 1 without another message.
var errDifferent = errors.New("something is different")

type configTestCmd struct {
	command.Settings
	Folder string `arg:"" help:"The folder of the cases, or of one case." type:"existingdir"`
	Record bool   `help:"Write what becomes of the events now as what is expected, into the case.json of each case."`
	JSON   bool   `help:"Print JSON."`
}

// Help is shown by tidemill config test --help.
func (c *configTestCmd) Help() string {
	return `A case is a folder with a file of events that is named after their system, such as delivery.json or crm.jsonl, and a file case.json that says what is expected of them. Begin with the events of one case:

  mkdir -p cases/purchase
  cp an-event.json cases/purchase/delivery.json
  tidemill config test cases --record     writes cases/purchase/case.json: read it, and keep it with the configuration
  tidemill config test cases              says what has changed since then

The rules are those of the system that runs, and nothing else happens: no server is contacted, nothing is sent, and what has to be remembered is in memory. Secrets need not be set.

The exit status is 0 if everything is as expected, and 1 if not. docs/configuration.md has the whole form.`
}

func (c *configTestCmd) Run(ctx context.Context, e command.Env) error {
	cfg, err := c.LoadToLook(e)
	if err != nil {
		return err
	}
	cases, err := rehearse.Cases(c.Folder, e.Table)
	if err != nil {
		return err
	}
	all := []*rehearse.Tried{}
	for _, one := range cases {
		became, err := one.Rehearse(ctx, e.Table, cfg, time.Now().UTC().Truncate(time.Second))
		if err != nil {
			return err
		}
		if c.Record {
			if err := one.Record(became); err != nil {
				return err
			}
			one.Expects = true
		}
		t, err := one.Compare(became)
		if err != nil {
			return err
		}
		all = append(all, t)
	}
	return c.print(e, all)
}

func (c *configTestCmd) print(e command.Env, all []*rehearse.Tried) error {
	failed := 0
	for _, t := range all {
		if !t.Ok {
			failed++
		}
	}
	if c.JSON {
		if err := command.PrintJSON(e.Out, map[string]any{"ok": failed == 0, "cases": all}); err != nil {
			return err
		}
	} else {
		for _, t := range all {
			if !t.Ok {
				_, _ = fmt.Fprintf(e.Out, "FAIL  %s\n", t.Case)
			}
			for _, d := range t.Differences {
				_, _ = fmt.Fprintf(e.Out, "      %s\n", d)
			}
		}
		said := fmt.Sprintf("%d of %d cases are as expected.", len(all)-failed, len(all))
		if c.Record {
			said = fmt.Sprintf("%d cases are recorded.", len(all))
		}
		if _, err := fmt.Fprintln(e.Out, said); err != nil {
			return err
		}
	}
	if failed > 0 {
		return errDifferent
	}
	return nil
}
