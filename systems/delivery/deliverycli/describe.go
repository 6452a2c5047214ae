package deliverycli

import (
	"context"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/delivery/deliveryapi"
)

type partnerAddCmd struct{ command.AddDescribed }

// Help is shown by tidemill partner add --help.
func (c *partnerAddCmd) Help() string {
	return `The settings are those of delivery.partners in the file: tidemill config reference delivery.partners. The partner is in the database that the instances share, and all of them send to it when the command answers. Secrets are not kept there: auth.credentials names the variable, which each instance needs.

  tidemill partner add ads ads.yaml --check
  tidemill partner add ads --set endpoint=https://ads.example/events --set 'when=event.eventType == "purchase"'
  tidemill partner test ads event.json`
}

func (c *partnerAddCmd) Run(ctx context.Context, e command.Env) error {
	return c.Add(ctx, e, "partner")
}

type partnerChangeCmd struct{ command.ChangeDescribed }

// Help is shown by tidemill partner change --help.
func (c *partnerChangeCmd) Help() string {
	return `Settings that are given replace those that are there; null takes one away. A partner that stands in the file is changed there.

  tidemill partner change ads --set timeout=5s --set atOnce=null`
}

func (c *partnerChangeCmd) Run(ctx context.Context, e command.Env) error {
	return c.Change(ctx, e, "partner")
}

type partnerRemoveCmd struct{ command.RemoveDescribed }

// Help is shown by tidemill partner remove --help.
func (c *partnerRemoveCmd) Help() string {
	return `When it answers, no instance sends to the partner any more, or it names the instances that have not said so within 10 seconds, and the exit status is 1. What waits for the partner becomes dead letters of its queue: add it again and replay them, or delete them.`
}

func (c *partnerRemoveCmd) Run(ctx context.Context, e command.Env) error {
	return c.Remove(ctx, e, "partner")
}

type partnerOffCmd struct {
	command.Remote
	deliveryapi.OnePartner
}

// Help is shown by tidemill partner off --help.
func (c *partnerOffCmd) Help() string {
	return `Of all instances. What waits for the partner goes on waiting; new events are not queued for it. tidemill partner close switches it on again.`
}

func (c *partnerOffCmd) Run(ctx context.Context, e command.Env) error {
	return moveCircuit(ctx, e, c, deliveryapi.SwitchOff, &c.OnePartner)
}

type siteCmd struct {
	List   siteListCmd   `cmd:"" help:"List the sites, and where each is described."`
	Show   siteShowCmd   `cmd:"" help:"Show how a site is described."`
	Add    siteAddCmd    `cmd:"" help:"Make a site, in the database of the instances."`
	Change siteChangeCmd `cmd:"" help:"Change a site that the database describes."`
	Remove siteRemoveCmd `cmd:"" help:"Remove a site that the database describes: its keys are refused."`
}

type siteListCmd struct{ command.ListDescribed }

func (c *siteListCmd) Run(ctx context.Context, e command.Env) error { return c.List(ctx, e, "site") }

type siteShowCmd struct{ command.ShowDescribed }

func (c *siteShowCmd) Run(ctx context.Context, e command.Env) error { return c.Show(ctx, e, "site") }

type siteAddCmd struct{ command.AddDescribed }

// Help is shown by tidemill site add --help.
func (c *siteAddCmd) Help() string {
	return `The settings are those of delivery.sites in the file: tidemill config reference delivery.sites. Of keys the database has the SHA-256 alone.

  tidemill site add shop shop.yaml
  tidemill site add shop --set 'keys_env=[SHOP_KEY]' --set daily=100000`
}

func (c *siteAddCmd) Run(ctx context.Context, e command.Env) error { return c.Add(ctx, e, "site") }

type siteChangeCmd struct{ command.ChangeDescribed }

func (c *siteChangeCmd) Run(ctx context.Context, e command.Env) error {
	return c.Change(ctx, e, "site")
}

type siteRemoveCmd struct{ command.RemoveDescribed }

func (c *siteRemoveCmd) Run(ctx context.Context, e command.Env) error {
	return c.Remove(ctx, e, "site")
}
