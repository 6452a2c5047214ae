package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/bulk"
	"github.com/tidemill/tidemill/state/queue"
)

type queueLimitsCmd struct {
	command.Remote
	api.OneQueue
	api.Seen
	Rate       *bulk.Rate     `help:"How many jobs are handed out in a second (50/s), a minute (50/m) or an hour (50/h)." placeholder:"N/s"`
	Burst      *int           `help:"How many of them are handed out at once after a pause. Default: a tenth of a second's." placeholder:"N"`
	AtOnce     *int           `help:"How many jobs may run at a time." placeholder:"N"`
	None       bool           `help:"Remove the limit."`
	Tenant     string         `help:"Limit this tenant, instead of the limit of each tenant." placeholder:"NAME" xor:"of"`
	EachTenant bool           `help:"Limit each tenant that has no limit of its own." xor:"of"`
	EachKey    bool           `help:"Limit each key of a tenant, like a user." xor:"of"`
	Weight     map[uint8]int  `help:"Weights of priorities: hand-outs are shared out by them. 0 removes a weight." placeholder:"PRIORITY=N" mapsep:","`
	Fair       string         `help:"Who takes turns: tenants, keys (tenants, and the keys within each), or unfair (nobody: first in, first out)." enum:",tenants,keys,unfair" default:"" placeholder:"WHO"`
	KeepDone   *int           `help:"How many delivered or skipped jobs are kept; 0: none." name:"keep-completed" placeholder:"N"`
	KeepFailed *int           `help:"How many failed jobs are kept; 0: none." placeholder:"N"`
	KeepFor    *time.Duration `help:"How long they are kept; 0s: until newer ones replace them." placeholder:"TIME"`
}

// Help is shown by tidemill queue limits --help.
func (c *queueLimitsCmd) Help() string {
	return `Without flags it shows the settings. A change takes effect at once, on all instances, and survives restarts. Jobs that a limit holds back wait, and delay no others.

  tidemill queue limits s2s.dv360
  tidemill queue limits s2s.dv360 --rate 100/s --at-once 20      of the whole queue
  tidemill queue limits s2s.dv360 --each-tenant --rate 10/s      of each site
  tidemill queue limits s2s.dv360 --tenant shop --rate 50/s      of one
  tidemill queue limits s2s.dv360 --tenant shop --none
  tidemill queue limits ingest.high --weight 3=64,0=1 --fair keys
  tidemill queue limits ingest.high --keep-completed 1000 --keep-for 24h`
}

// patch is what the flags change, as a merge patch of the settings; nil: nothing.
func (c *queueLimitsCmd) patch() (map[string]any, error) {
	p := map[string]any{}
	var limit any
	if c.None {
		if c.Rate != nil || c.Burst != nil || c.AtOnce != nil {
			return nil, command.UsageError{Err: errors.New("--none and a limit contradict each other: leave one out")}
		}
	} else {
		l := map[string]any{}
		if c.Rate != nil {
			l["per_second"] = c.Rate.PerSecond()
		}
		if c.Burst != nil {
			l["burst"] = *c.Burst
		}
		if c.AtOnce != nil {
			l["at_once"] = *c.AtOnce
		}
		if len(l) > 0 {
			limit = l
		}
	}
	if limit == nil && !c.None && (c.Tenant != "" || c.EachTenant || c.EachKey) {
		return nil, command.UsageError{Err: errors.New("say which limit: --rate, --burst, --at-once, or --none to remove it")}
	}
	switch {
	case limit == nil && !c.None:
	case c.Tenant != "":
		p["tenants"] = map[string]any{c.Tenant: limit}
	case c.EachTenant:
		p["tenant"] = limit
	case c.EachKey:
		p["key"] = limit
	default:
		p["limit"] = limit
	}
	if len(c.Weight) > 0 {
		weights := map[string]any{}
		for priority, n := range c.Weight {
			if weights[strconv.Itoa(int(priority))] = nil; n != 0 {
				weights[strconv.Itoa(int(priority))] = n
			}
		}
		p["weights"] = weights
	}
	if c.Fair != "" {
		p["fair"] = map[string]queue.Fairness{"tenants": queue.ByTenant, "keys": queue.ByKey, "unfair": queue.Unfair}[c.Fair]
	}
	return p, c.keep(p)
}

// keep adds how long ended jobs are kept.
func (c *queueLimitsCmd) keep(p map[string]any) error {
	if c.KeepFor != nil && c.KeepDone == nil && c.KeepFailed == nil {
		return command.UsageError{Err: errors.New("--keep-for needs --keep-completed or --keep-failed: how many")}
	}
	for name, n := range map[string]*int{"completed": c.KeepDone, "failed": c.KeepFailed} {
		if n == nil {
			continue
		}
		k := map[string]any{"count": *n}
		if c.KeepFor != nil {
			k["age"] = c.KeepFor.Nanoseconds()
		}
		p[name] = k
	}
	return nil
}

func (c *queueLimitsCmd) Run(ctx context.Context, e command.Env) error {
	patch, err := c.patch()
	if err != nil {
		return err
	}
	printed := func(s *queue.Settings) error {
		w := tabwriter.NewWriter(e.Out, 0, 4, 2, ' ', 0)
		printSettings(w, s)
		return w.Flush()
	}
	if len(patch) == 0 {
		return c.Ask(ctx, e, func(a *command.Client) error {
			q, err := api.GetQueue.Call(ctx, &a.Client, &c.OneQueue)
			switch {
			case err != nil:
				return err
			case c.JSON:
				return command.PrintJSON(e.Out, q.Settings)
			}
			return printed(q.Settings)
		})
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return command.Show(ctx, e, c, api.SetQueue, &api.QueueChange{OneQueue: c.OneQueue, Seen: c.Seen.OrWhatever(), Body: body}, func(_ *command.Client, s *queue.Settings) error { return printed(s) })
}

// printSettings shows settings in words.
func printSettings(w io.Writer, s *queue.Settings) {
	_, _ = fmt.Fprintf(w, "limit\t%s\n", limitText(s.Limit))
	_, _ = fmt.Fprintf(w, "limit of each tenant\t%s\n", limitText(s.Tenant))
	for _, name := range slices.Sorted(maps.Keys(s.Tenants)) {
		_, _ = fmt.Fprintf(w, "limit of tenant %s\t%s\n", command.Printable(name), limitText(s.Tenants[name]))
	}
	_, _ = fmt.Fprintf(w, "limit of each key\t%s\n", limitText(s.Key))
	weights := []string{}
	for _, p := range slices.Backward(slices.Sorted(maps.Keys(s.Weights))) {
		weights = append(weights, fmt.Sprintf("%d of priority %d", s.Weights[p], p))
	}
	if len(weights) == 0 {
		weights = []string{"each priority 4 times the one below"}
	}
	_, _ = fmt.Fprintf(w, "weights\t%s\n", strings.Join(weights, ", "))
	turns := map[queue.Fairness]string{queue.ByTenant: "tenants", queue.ByKey: "tenants, and their keys", queue.Unfair: "nobody: first in, first out"}[s.Fair]
	_, _ = fmt.Fprintf(w, "who takes turns\t%s\n", turns)
	if s.Ordered {
		_, _ = fmt.Fprintf(w, "order\tstrict for each tenant and key\n")
	}
	_, _ = fmt.Fprintf(w, "completed jobs kept\t%s\nfailed jobs kept\t%s\n", keepText(s.Completed), keepText(s.Failed))
}

func limitText(l queue.Limit) string {
	var parts []string
	if l.PerSecond > 0 {
		text := fmt.Sprintf("%.6g a second", l.PerSecond)
		if l.PerSecond < 1 {
			text = fmt.Sprintf("%.6g a minute", l.PerSecond*60)
		}
		parts = append(parts, text)
	}
	if l.Burst > 0 {
		parts = append(parts, fmt.Sprintf("%d at once after a pause", l.Burst))
	}
	if l.AtOnce > 0 {
		parts = append(parts, fmt.Sprintf("%d running at a time", l.AtOnce))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func keepText(k queue.Keep) string {
	switch {
	case k.Count == 0:
		return "none"
	case k.Age == 0:
		return fmt.Sprintf("the last %d", k.Count)
	}
	return fmt.Sprintf("the last %d, for %v", k.Count, k.Age)
}
