package windowscli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

type searchCmd struct {
	aboutWindows
	Query []string `arg:"" optional:"" help:"What to look for; all words have to match. Default: the newest records. After -- it may begin with a minus."`
	windowsapi.SearchQuery
	Size int `help:"How many to show; 0: all." short:"n" default:"20" placeholder:"N"`
}

// Help is shown by tidemill search --help.
func (c *searchCmd) Help() string {
	return `All conditions have to match:

  protest                              a word in any text
  "human rights"                       words in this order, in one text
  actor1Name:"united states"           the same in one field
  actor1CountryCode:USA eventCode:141  whole values of codes and numbers
  eventDate:2025-03                    a day, a month, a year, or an instant
  eventDate:2025-03-01..2025-03-23     from … to, both included; either can be left out
  avgTone:<-5  numMentions:>=10        also > and <=, for numbers and dates
  -protest  -quadClass:4               not

Words match in any case, codes exactly. The shell removes quotes: put single quotes around the whole query.

  tidemill search protest actor1CountryCode:USA
  tidemill search 'actor1Name:"united states" avgTone:<-5' --since 7d
  tidemill search --in mentions 'mentionSourceName:bbc.co.uk' --size 100
  tidemill search -- -protest numMentions:'>=10'
  tidemill search eventCode:141 --size 0 --json | jq .document.sourceUrl`
}

// hitsMost is how many hits are asked for at once.
const hitsMost = 1000

func (c *searchCmd) Run(ctx context.Context, e command.Env) error {
	if c.Size < 0 {
		return command.UsageError{Err: fmt.Errorf("--size wants a number of records, or 0 for all, not %d", c.Size)}
	}
	q := c.SearchQuery
	q.Query, q.Span = strings.Join(c.Query, " "), c.Fixed(time.Now())
	return c.Ask(ctx, e, func(a *command.Client) error {
		var t *command.Table
		shown, total, atLeast := 0, 0, false
		failed := func() error {
			for {
				q.Page.Size = hitsMost
				if c.Size > 0 {
					q.Page.Size = min(hitsMost, c.Size-shown)
				}
				page, err := windowsapi.Search.Call(ctx, &a.Client, &q)
				if err != nil {
					return err
				}
				if page.Total != nil {
					total, atLeast = *page.Total, page.AtLeast
				}
				if t == nil {
					t = &command.Table{Out: e.Out, Head: headOf(page.Family), None: "No such records."}
				}
				for _, raw := range page.Hits {
					if err := c.hit(e, t, page.Family, raw); err != nil {
						return err
					}
				}
				shown += len(page.Hits)
				if q.After = page.Next; page.Next == "" || c.Size > 0 && shown >= c.Size {
					return nil
				}
			}
		}()
		if t != nil && !c.JSON {
			failed = t.End(failed)
		}
		if failed == nil && shown < total {
			least := ""
			if atLeast {
				least = " or more"
			}
			_, _ = fmt.Fprintf(e.Err, "These are %d of %d%s. --size 0 shows all.\n", shown, total, least)
		}
		return failed
	})
}

// headOf are the columns of a family.
func headOf(family string) string {
	switch family {
	case "gdelt-events":
		return "DAY\tID\tACTOR 1\tACTOR 2\tCODE\tTONE\tMENTIONS\tPLACE\tSOURCE"
	case "gdelt-mentions":
		return "TIME\tEVENT\tSOURCE\tSENTENCE\tCONFIDENCE\tTONE\tDOCUMENT"
	}
	return "DAY\tID\tDOCUMENT"
}

// hit prints one document.
func (c *searchCmd) hit(e command.Env, t *command.Table, family string, raw operation.JSON[windowsapi.Hit]) error {
	if c.JSON {
		return command.PrintJSON(e.Out, raw)
	}
	var h windowsapi.Hit
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	var d map[string]json.RawMessage
	if err := json.Unmarshal(h.Document, &d); err != nil {
		return errors.Join(fmt.Errorf("document %s is not a JSON object", command.Printable(h.ID)), err)
	}
	value := func(name string, n int) string {
		v := string(d[name])
		if text := ""; json.Unmarshal(d[name], &text) == nil {
			v = text
		}
		return cmp.Or(command.Short(v, n), "-")
	}
	switch family {
	case "gdelt-events":
		return t.Row(h.Day, command.Short(h.ID, 40), value("actor1Name", 24), value("actor2Name", 24), value("eventCode", 8), value("avgTone", 7), value("numMentions", 8), value("actionGeoFullName", 30), value("sourceUrl", 60))
	case "gdelt-mentions":
		return t.Row(value("mentionTimeDate", 20), value("globalEventId", 20), value("mentionSourceName", 24), value("sentenceId", 8), value("confidence", 8), value("mentionDocTone", 7), value("mentionIdentifier", 60))
	}
	return t.Row(h.Day, command.Short(h.ID, 40), command.Short(string(h.Document), 100))
}
