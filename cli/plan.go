package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/plan"
)

type planCmd struct {
	System   string        `arg:"" help:"The system to plan, of ${systems}."`
	Rate     float64       `required:"" help:"Events a second, at the busiest time." placeholder:"N"`
	Size     config.Size   `help:"Bytes of an event. Default: those of the events that were measured."`
	Servers  []string      `help:"The servers it is on, with commas: redis, postgres, clickhouse, kafka, mqtt. Default: one file." placeholder:"NAME,…"`
	Partners int           `default:"1" help:"Partners that each event is delivered to, of delivery."`
	Keep     time.Duration `help:"How long events are kept, like 30d. Default: for ever, so that disks have no end."`
	Waiting  time.Duration `default:"1h" help:"The longest time for which no event can be processed, and all wait: an outage to outlast."`
	JSON     bool          `help:"Print JSON."`
}

// Help is shown by tidemill plan --help.
func (c *planCmd) Help() string {
	return `It computes processors, memory, disk and instances from what was measured of the system as it is shipped, each figure with its source, and says which part is the limit and what happens beyond it. What was not measured is named, and not guessed: a set of servers without figures is refused.

  tidemill plan analytics --rate 5000 --size 800 --keep 30d
  tidemill plan analytics --rate 5000 --servers redis,postgres,clickhouse --keep 365d --waiting 4h
  tidemill plan delivery --rate 100 --partners 3 --json

Load your own machine before you rely on it: docs/sizing.md says how the figures were measured.`
}

func (c *planCmd) Run(e command.Env) error {
	if err := e.Table.Has(c.System); err != nil {
		return command.UsageError{Err: err}
	}
	asked := plan.Asked{System: c.System, Servers: c.Servers, Rate: c.Rate, Size: float64(c.Size), Partners: c.Partners, Keep: c.Keep, Waiting: c.Waiting}
	p, err := plan.Of(asked, e.Table.Of([]string{c.System})[0].Figures)
	if err != nil {
		return err
	}
	if c.JSON {
		return command.PrintJSON(e.Out, p)
	}
	return c.print(e, p)
}

func (c *planCmd) print(e command.Env, p *plan.Plan) error {
	servers := "one file"
	if len(p.Servers) > 0 {
		servers = strings.Join(p.Servers, ", ")
	}
	if _, err := fmt.Fprintf(e.Out, "%s on %s: %.0f events a second of %.0f bytes%s, waiting at most %s\n\n", p.System, servers, p.Rate, p.Size, kept(c.Keep), hours(c.Waiting)); err != nil {
		return err
	}
	t := command.Table{Out: e.Out, Head: "PART\tCOUNT\tCORES EACH\tMEMORY EACH\tDISK A DAY\tDISK"}
	for _, n := range p.Needs {
		count := 1
		if n.Name == "tidemill" {
			count = p.Instances
		}
		disk := amount(n.Disk)
		if n.Daily > 0 && c.Keep == 0 {
			disk = strings.TrimPrefix(disk+" and grows", " and ")
		}
		if err := t.Row(n.Name, fmt.Sprint(count), cores(n.Cores), amount(n.Memory), amount(n.Daily), disk); err != nil {
			return err
		}
	}
	if err := t.End(nil); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe limit is %s: up to %.0f events a second.\nBeyond it: %s.\n", p.Limit, p.UpTo, p.Breaks)
	for _, list := range []struct {
		head  string
		lines []string
	}{{"Kept", holds(p)}, {"Settings that are not their defaults", p.Set}, {"Assumed", p.Assumed}, {"Not measured, and not in it", p.Unknown}, {"Measured", []string{p.Measured}}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", list.head, strings.Join(list.lines, "\n  "))
		}
	}
	_, err := fmt.Fprint(e.Out, b.String())
	return err
}

func holds(p *plan.Plan) (lines []string) {
	for _, n := range p.Needs {
		if n.Holds != "" {
			lines = append(lines, n.Name+": "+n.Holds)
		}
	}
	return lines
}

func kept(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", kept %g days", d.Hours()/24)
}

// hours writes a duration as a flag takes it: 1h, not 1h0m0s.
func hours(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func cores(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", max(n, 0.1))
}

// amount writes bytes for people; nothing if there are none.
func amount(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	for _, u := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}} {
		if bytes >= u.size || u.name == "MiB" {
			return fmt.Sprintf("%.1f %s", bytes/u.size, u.name)
		}
	}
	return ""
}
