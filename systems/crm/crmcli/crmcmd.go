package crmcli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/crm/crmapi"
)

type crmCmd struct {
	Send    crmSendCmd    `cmd:"" help:"Send business events from files or from standard input."`
	Status  crmStatusCmd  `cmd:"" help:"Show how CRM stands: queue, dead letters, matched profiles, replays."`
	Profile crmProfileCmd `cmd:"" help:"Show the profile of a customer: identities and attributes."`
}

type crmStatusCmd struct{ command.Remote }

// Help is shown by tidemill crm status --help.
func (c *crmStatusCmd) Help() string {
	return `WAITING events are due, by priority: high goes first, and none starves. DELAYED events failed and are tried again later. COMPLETED events were handled; SKIPPED events were not (completed before, no handler, not valid); FAILED events became dead letters. MATCHED is how many of this instance's events of the last five minutes found an existing profile.

  tidemill queue stats crm-events             more about the queue: tenants, limits
  tidemill queue pause crm-events             hand out no jobs; resume ends it
  tidemill queue drain crm-events --wait      finish the jobs, take no new ones
  tidemill queue clean crm-events --state failed
  tidemill dead list --pipeline crm-events
  tidemill synclog show TENANT ID             where one event is`
}

func (c *crmStatusCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, crmapi.GetCRM, &operation.None{}, func(_ *command.Client, s *crmapi.CRM) error { return printCRM(e.Out, s) })
}

func printCRM(out io.Writer, s *crmapi.CRM) error {
	q := api.Queue{Name: s.Queue, Waiting: s.Waiting, Delayed: s.Delayed, Leased: s.Leased, Age: s.Age, Paused: s.Paused, Closed: s.Closed}
	state := command.QueueState(&q)
	if s.Paused || s.Closed {
		state += ": `tidemill queue resume " + s.Queue + "` ends it"
	}
	var by []string
	for _, p := range s.Priorities {
		by = append(by, p.Name+" "+command.Whole(p.Waiting))
	}
	waiting := command.Whole(s.Waiting)
	if len(by) > 0 {
		waiting += ": " + strings.Join(by, ", ")
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "queue\t%s, %s\nwaiting\t%s\ndelayed\t%d\nbeing handled\t%d\noldest\t%s\ncompleted\t%d\nskipped\t%d\nfailed\t%d\nkept\t%d completed or skipped, %d failed\n",
		command.Printable(s.Queue), state, waiting, s.Delayed, s.Leased, command.QueueAge(&q), s.Completed, s.Skipped, s.Failed, s.Kept.Completed, s.Kept.Failed)
	dead, matched, replays := strconv.Itoa(s.Dead), "no events in the last five minutes", "none open"
	if s.Dead > 0 {
		dead += ": `tidemill dead list --pipeline " + s.Queue + "`"
	}
	if s.Expired > 0 {
		dead += fmt.Sprintf("; %d deleted because of their age", s.Expired)
	}
	if s.Matched != nil {
		matched = strconv.FormatFloat(*s.Matched, 'f', 1, 64) + "% of the events of the last five minutes found an existing profile"
	}
	if s.Replays > 0 {
		replays = strconv.Itoa(s.Replays) + " open: `tidemill replay status`"
	}
	_, _ = fmt.Fprintf(w, "dead letters\t%s\nmatched\t%s\nreplays\t%s\n", dead, matched, replays)
	return w.Flush()
}
