package config

import (
	"fmt"
	"io"
	"strings"
)

// WriteReference writes every setting as an annotated YAML file that can be edited.
func WriteReference(w io.Writer) error {
	notes := func(f *Field) []string {
		notes := []string{f.Help}
		if f.Allow != "" {
			notes = append(notes, "allowed: "+f.Allow)
		}
		if len(f.Env) > 0 {
			notes = append(notes, "environment: "+strings.Join(f.Env, ", "))
		}
		if f.Flag != "" {
			notes = append(notes, "flag: --"+f.Flag)
		}
		return notes
	}
	all := Reference()
	for _, part := range []struct{ last, lists string }{{"crm.", crmLists}, {windowsPrefix, windowsLists}} { // behind the group that they are in
		n := len(all)
		for n > 0 && !strings.HasPrefix(all[n-1].Path, part.last) {
			n--
		}
		if err := write(w, all[:n], true, notes); err != nil {
			return err
		}
		if _, err := io.WriteString(w, part.lists); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// Write writes the settings as they are, each with where it came from.
func (c *Loaded) Write(w io.Writer) error {
	if err := write(w, c.Fields(), false, func(f *Field) []string { return []string{"from " + c.From[f.Path]} }); err != nil {
		return err
	}
	if err := c.writeLists(w); err != nil || len(c.Projects) == 0 {
		return err
	}
	_, err := fmt.Fprintln(w, "projects:")
	for _, p := range c.Projects {
		if err == nil {
			_, err = fmt.Fprintf(w, "  - {name: %s, key: \"[secret]\"}\n", scalar(p.Name))
		}
	}
	return err
}

// writeLists names sites, partners, tenants, handlers and processors: they are described where they were
// read.
func (c *Loaded) writeLists(w io.Writer) error {
	var b strings.Builder
	for _, s := range c.Delivery.Sites {
		fmt.Fprintf(&b, "# a site: %s\n", scalar(s.ID))
	}
	for _, p := range c.Delivery.Partners {
		fmt.Fprintf(&b, "# a partner: %s\n", scalar(p.Name))
	}
	for _, t := range c.CRM.Tenants {
		fmt.Fprintf(&b, "# a tenant: %s\n", scalar(t.ID))
	}
	for i := range c.Windows.Processors {
		fmt.Fprintf(&b, "# a processor: %s\n", scalar(c.Windows.Processors[i].Name))
	}
	for _, h := range c.CRM.Handlers {
		fmt.Fprintf(&b, "# a handler: %s, for %s\n", scalar(h.Name), scalar(strings.Join(h.Types, ", ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes settings; for all machines: rules instead of what they make here, and
// commented out those that say something by being given.
func write(w io.Writer, fs []Field, forAll bool, notes func(*Field) []string) error {
	var b strings.Builder
	var open []string // groups that are begun
	for _, f := range fs {
		parts := strings.Split(f.Path, ".")
		groups, name := parts[:len(parts)-1], parts[len(parts)-1]
		same := 0
		for same < len(groups) && same < len(open) && groups[same] == open[same] {
			same++
		}
		for i := same; i < len(groups); i++ {
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), groups[i])
		}
		open = groups
		indent := strings.Repeat("  ", len(groups))
		for _, n := range notes(&f) {
			fmt.Fprintf(&b, "%s# %s\n", indent, n)
		}
		value := f.String()
		if forAll && f.rule() {
			value = f.Default
		}
		if forAll && f.comment {
			name = "#" + name // a remark has a blank after its sign
		}
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, scalar(value))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// scalar quotes what YAML would read as something else.
func scalar(s string) string {
	if s == "" || strings.ContainsAny(s, ":#{}[]&*!|>'\"%@`,\n") || strings.TrimSpace(s) != s {
		return fmt.Sprintf("%q", s)
	}
	return s
}
