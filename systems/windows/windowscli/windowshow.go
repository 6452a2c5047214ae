package windowscli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

type windowShowCmd struct {
	aboutWindows
	Window  string `arg:"" name:"id" help:"A window's id, as tidemill window list shows it, or a batch id for all of its windows."`
	Project string `help:"Project, by name or id. Needed only if several have windows of the id." placeholder:"NAME"`
	Records *int   `help:"How many of its records to print too, byte for byte, one a line; 0: all." placeholder:"N"`
}

// Help is shown by tidemill window show --help.
func (c *windowShowCmd) Help() string {
	return `It shows the state of a window, what it waits for, its last failure, and what you can do. A window that no longer exists was delivered.

  tidemill window show 20250323151500
  tidemill window show 20250323151500/1742743 --records 10
  tidemill window show 20250323151500/1742743 --records 0 --json >records.ndjson`
}

func (c *windowShowCmd) Run(ctx context.Context, e command.Env) error {
	if c.Window == "" {
		return command.UsageError{Err: errors.New("the id is empty: want a window's, as tidemill window list shows it, or a batch id")}
	}
	if c.Records != nil && *c.Records < 0 {
		return command.UsageError{Err: fmt.Errorf("--records wants a number, or 0 for all, not %d", *c.Records)}
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		found, err := c.find(ctx, a)
		if err != nil {
			return err
		}
		for i, l := range found {
			if i > 0 && !c.JSON {
				_, _ = fmt.Fprintln(e.Out)
			}
			if err := c.show(ctx, e, a, &l); err != nil && (len(found) == 1 || !command.NotFound(err)) { // of several one may be gone meanwhile
				return err
			}
		}
		return nil
	})
}

// find says which windows are meant: the one of that id, or those of a batch id in one project.
func (c *windowShowCmd) find(ctx context.Context, a *command.Client) (found []windowsapi.Window, err error) {
	if at := strings.LastIndexByte(c.Window, '/'); at > 0 {
		if _, err := strconv.ParseUint(c.Window[at+1:], 10, 64); err == nil {
			w, err := windowsapi.GetWindow.Call(ctx, &a.Client, &windowsapi.OneWindow{ID: c.Window, Project: c.Project})
			if err == nil || !command.NotFound(err) {
				return []windowsapi.Window{w.Window}, err
			}
		}
	}
	for l, err := range windowsapi.ListWindows.Each(ctx, &a.Client, &windowsapi.WindowFilter{Batch: c.Window, Project: c.Project}) {
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && l.Project != found[0].Project {
			return nil, fmt.Errorf("%s is in the projects %s and %s: say which one is meant (--project NAME)", command.Printable(c.Window), command.Printable(found[0].Project), command.Printable(l.Project))
		}
		if len(found) < windowsShown {
			found = append(found, *l)
		}
	}
	if len(found) == 0 {
		err = fmt.Errorf("there is no window or batch id %s: it was delivered, or no records came for it; `tidemill window list` shows all windows, `tidemill dead list --system windows` the records that were given up", command.Printable(c.Window))
	}
	return found, err
}

// windowsShown is how many windows of a batch id are shown, the oldest.
const windowsShown = 20

func (c *windowShowCmd) show(ctx context.Context, e command.Env, a *command.Client, l *windowsapi.Window) error {
	of := windowsapi.OneWindow{ID: l.ID, Project: l.Project}
	if c.Records == nil || !c.JSON {
		if _, err := command.Shown(ctx, e, c, a, windowsapi.GetWindow, &of, func(w *windowsapi.StandingWindow) error { return printWindow(e.Out, w, a.Live) }); err != nil || c.Records == nil {
			return err
		}
		_, _ = fmt.Fprintln(e.Out)
	}
	return c.records(ctx, e, a, of)
}

// pageSize is how many records are asked for at once.
const pageSize = 500

// records prints records of a window: with --json each as the API writes it.
func (c *windowShowCmd) records(ctx context.Context, e command.Env, a *command.Client, of windowsapi.OneWindow) error {
	q := windowsapi.RecordsOf{OneWindow: of, Page: windowsapi.Page{Size: pageSize}}
	for left := *c.Records; ; {
		if *c.Records > 0 {
			q.Size = min(pageSize, left)
		}
		page, err := windowsapi.GetRecords.Call(ctx, &a.Client, &q)
		if err != nil {
			return err
		}
		for _, raw := range page.Records {
			if err := c.record(e, raw); err != nil {
				return err
			}
		}
		if page.Lost > 0 {
			_, _ = fmt.Fprintf(e.Err, "%s not there any more.\n", command.Count(page.Lost, "record is", "records are"))
		}
		left -= len(page.Records)
		if q.After = page.Next; q.After == "" || *c.Records > 0 && left <= 0 {
			return nil
		}
	}
}

func (c *windowShowCmd) record(e command.Env, raw operation.JSON[windowsapi.Record]) error {
	if c.JSON {
		return command.PrintJSON(e.Out, raw)
	}
	var r windowsapi.Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	if r.Damaged != "" {
		_, _ = fmt.Fprintf(e.Out, "(%s) ", command.Printable(r.Damaged))
	}
	if err := command.PrintPayload(e, r.Payload, r.PayloadBase64); err != nil || command.Terminal(e.Out) {
		return err
	}
	_, err := fmt.Fprintln(e.Out)
	return err
}

// printWindow shows a window to people.
func printWindow(out io.Writer, l *windowsapi.StandingWindow, live bool) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "window\t%s\nbatch\t%s\nproject\t%s\n%s\t%s\n", command.Printable(l.ID), command.Printable(l.Batch), command.Printable(l.Project), l.State, windowWords(l, live))
	_, _ = fmt.Fprintf(w, "records\t%s\n", windowCounts(l))
	if l.Lost > 0 {
		_, _ = fmt.Fprintf(w, "lost\t%s found missing: counted as dead\n", command.Count(int(l.Lost), "record was", "records were"))
	}
	_, _ = fmt.Fprintf(w, "opened\t%s, %s ago\n", l.Opened.Format(time.RFC3339), windowAge(&l.Window))
	if l.Closed != nil {
		why := map[string]string{"time": "its time was over", "count": "all announced records had come", "hand": "by hand"}[l.Why]
		_, _ = fmt.Fprintf(w, "closed\t%s\n", command.Because(command.Stamp(l.Closed), why))
	}
	if l.Owner != "" {
		_, _ = fmt.Fprintf(w, "owner\t%s, until %s unless it is renewed\n", command.Printable(l.Owner), command.Stamp(l.Lease))
	}
	_, _ = fmt.Fprintf(w, "tries\t%d failed, handed out %s, replayed %s\n", l.Tries, command.Count(l.Handed, "time", "times"), command.Count(l.Replays, "time", "times"))
	if l.Failed != nil {
		_, _ = fmt.Fprintf(w, "failed\t%s  %s  %s\n", command.Stamp(l.Failed), l.Kind, command.Printable(l.Error))
	}
	return w.Flush()
}

// windowCounts say what is in a window.
func windowCounts(l *windowsapi.StandingWindow) string {
	text := command.Whole(l.Records)
	if l.Expect > 0 {
		text += " of " + command.Whole(l.Expect)
	}
	var by []string
	for _, k := range command.Sorted(l.Kinds) {
		by = append(by, command.Whole(l.Kinds[k])+" "+command.Printable(k))
	}
	if l.Damaged > 0 {
		by = append(by, command.Whole(l.Damaged)+" of them damaged")
	}
	if len(by) > 0 {
		text += ": " + strings.Join(by, ", ")
	}
	if l.Counted < l.Records {
		text += fmt.Sprintf(" (of the first %d)", l.Counted)
	}
	return text + ", about " + size(l.Bytes)
}

// size writes a number of bytes.
func size(n int64) string {
	switch {
	case n < 10<<10:
		return command.Count(int(n), "byte", "bytes")
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// windowWords say what a window waits for, and what can be done.
func windowWords(l *windowsapi.StandingWindow, live bool) string {
	switch l.Waits {
	case "records":
		text := "it collects until" + command.At(l.Until)
		if l.Expect > 0 {
			text = fmt.Sprintf("it collects until there are %d records, or%s", l.Expect, command.At(l.Until))
		}
		return text + "; `tidemill window close " + quoted(l.Batch) + "` ends it now"
	case "retry":
		return command.Because("its last try failed, and it is tried again"+command.At(l.Until), windowCause(&l.Window))
	case "older":
		return "another window of its batch id goes first: " + command.Printable(l.Behind)
	case "resume":
		return "the delivery is paused: `tidemill resume windows-delivery`"
	case "start":
		if !live {
			return "no instance runs that could deliver it: `tidemill run` starts one"
		}
		return "the delivery does not run in this instance: `tidemill status` shows how it stands"
	case "topics":
		text := command.Because("nothing can be sent now; that does not count as a try", l.Because)
		if l.Until != nil {
			text += "; tried again" + command.At(l.Until)
		}
		return text
	case "turn":
		return "it waits for its turn: other windows go first"
	case "delivery":
		return "it is being processed and sent"
	case "lease":
		return "its instance did not finish; another one takes it over"
	case "replay":
		return command.Because("it failed too often and is kept whole", windowCause(&l.Window)) + "\n\t  when the cause is gone: `tidemill window replay " + quoted(l.ID) + "`"
	}
	return windowDetail(&l.Window)
}

// quoted is a word for a shell, shown without steering the terminal.
func quoted(s string) string {
	s = command.Printable(s)
	if strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("/_.:@%+,=-", r))
	}) || s == "" || s[0] == '-' {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

type windowStatusCmd struct{ aboutWindows }

// Help is shown by tidemill window status --help.
func (c *windowStatusCmd) Help() string {
	return `OLDEST is the age of a state's oldest window, since its first record. PROCESSORS are counted since the instance started; a window that is tried again is counted again. A processor's on_error says what its failure means: by default the records go on unchanged.

  tidemill window list --state parked      windows that failed too often, and why
  tidemill window show BATCH               where one is
  tidemill audit windows                   the proof that no record is missing`
}

func (c *windowStatusCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, windowsapi.GetWindows, &operation.None{}, func(a *command.Client, s *windowsapi.Windows) error { return printWindows(e.Out, s, a.Live) })
}

// printWindows shows how windows stand to people.
func printWindows(out io.Writer, s *windowsapi.Windows, live bool) error {
	t := command.Table{Out: out, Head: "STATE\tWINDOWS\tRECORDS\tOLDEST"}
	for _, state := range []string{"active", "ready", "leased", "parked"} {
		d, age := s.States[state], "-"
		if d.Windows > 0 {
			age = command.Roughly(time.Duration(d.Age * float64(time.Second)))
		}
		if err := t.Row(state, command.Whole(d.Windows), command.Whole(d.Records), age); err != nil {
			return err
		}
	}
	if err := t.End(nil); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out)
	switch d := s.Delivery; {
	case !live:
		_, _ = fmt.Fprintln(out, "No instance runs; the data was read directly.")
	case d.Why != "":
		_, _ = fmt.Fprintln(out, command.Because("Nothing can be sent now; that does not count as a try", d.Why)+".")
	case d.State == "paused":
		_, _ = fmt.Fprintln(out, "The delivery is paused: `tidemill resume windows-delivery` ends the pause.")
	default:
		_, _ = fmt.Fprintf(out, "The delivery is %s.\n", command.Printable(d.State))
	}
	if s.Lost > 0 {
		_, _ = fmt.Fprintf(out, "%d RECORDS WERE FOUND MISSING in the store: they are counted as dead.\n", s.Lost)
	}
	if n := s.States["parked"].Windows; n > 0 {
		_, _ = fmt.Fprintf(out, "%s: `tidemill window list --state parked` shows why, `tidemill window replay --all` delivers them again.\n", command.Count(int(n), "window is parked", "windows are parked"))
	}
	if len(s.Processors) == 0 || !live {
		return nil
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	p := command.Table{Out: out, Head: "PROCESSOR\tRECORDS\tSKIPPED\tDEAD\tFAILED\tSECONDS"}
	u := func(n uint64) string { return strconv.FormatUint(n, 10) }
	var err error
	for _, x := range s.Processors {
		err = errors.Join(err, p.Row(x.Name, u(x.Records), u(x.Skipped), u(x.Dead), u(x.Failed), strconv.FormatFloat(x.Seconds, 'f', 1, 64)))
	}
	return p.End(err)
}
