package config

import (
	"fmt"
	"io"
	"strings"
)

// WriteReference writes every setting as an annotated YAML file that can be edited.
func WriteReference(w io.Writer) error {
	return write(w, Reference(), func(f *Field) []string {
		notes := []string{f.Help}
		if f.Allow != "" {
			notes = append(notes, "allowed: "+f.Allow)
		}
		if len(f.Env) > 0 {
			notes = append(notes, "environment: "+strings.Join(f.Env, ", "))
		}
		return notes
	})
}

// Write writes the settings as they are, each with where it came from.
func (c *Loaded) Write(w io.Writer) error {
	if err := write(w, c.Fields(), func(f *Field) []string { return []string{"from " + c.From[f.Path]} }); err != nil {
		return err
	}
	if len(c.Projects) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "projects:")
	for _, p := range c.Projects {
		if err == nil {
			_, err = fmt.Fprintf(w, "  - {name: %s, key: \"[secret]\"}\n", scalar(p.Name))
		}
	}
	return err
}

func write(w io.Writer, fs []Field, notes func(*Field) []string) error {
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
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, scalar(f.String()))
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
