package command

import (
	"fmt"
	"io"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api"
)

// PrintChanges prints changes, a line each.
func PrintChanges(w io.Writer, title string, all []api.SettingChange) error {
	if len(all) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, title)
	for _, c := range all {
		sign, values := map[string]string{config.Added: "+", config.Removed: "-", config.Changed: "~"}[c.What], ""
		if c.What == config.Changed {
			values = fmt.Sprintf(": %s -> %s", orNone(c.Before), orNone(c.After))
		}
		if _, err2 := fmt.Fprintf(w, "  %s %s%s\n", sign, Printable(c.Setting), Printable(values)); err == nil {
			err = err2
		}
	}
	return err
}

func orNone(text string) string {
	if text == "" {
		return "(empty)"
	}
	return text
}
