package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteReference writes every setting as an annotated YAML file that can be edited.
func (s Schema) WriteReference(w io.Writer) error {
	all := s.Reference()
	for _, list := range []string{"projects", "console.oidc"} {
		if _, err := s.describe(w, list, ""); err != nil {
			return err
		}
	}
	for _, g := range s.blank().groups { // the lists of a group are behind it
		lists, ok := g.settings.(interface{ Example() string })
		if !ok {
			continue
		}
		path, n := g.Name, len(all)
		for n > 0 && !strings.HasPrefix(all[n-1].Path, path+".") {
			n--
		}
		if err := write(w, all[:n], true, notes); err != nil {
			return err
		}
		if _, err := io.WriteString(w, lists.Example()); err != nil {
			return err
		}
		if _, err := s.describe(w, path, "  "); err != nil {
			return err
		}
		all = all[n:]
	}
	return write(w, all, true, notes)
}

// reloadNote says of a setting that it needs no restart.
const reloadNote = "a reload applies it"

// notes explain a setting.
func notes(f *Field) []string {
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
	if f.Reload {
		notes = append(notes, reloadNote)
	}
	return notes
}

// ReferenceOf lists the settings that a name is of, with their defaults: of a path, of a group,
// of an environment variable, or of a flag. Empty: all. Its error says what there is.
func (s Schema) ReferenceOf(name string) ([]Field, error) {
	all := s.Reference()
	if name == "" {
		return all, nil
	}
	var found []Field
	fields := map[string]*Field{}
	for i := range all {
		f := &all[i]
		fields[f.Path] = f
		if f.Path == name || strings.HasPrefix(f.Path, name+".") || slices.Contains(f.Env, name) || f.Flag != "" && "--"+f.Flag == name {
			found = append(found, *f)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there is no setting %s%s", name, (&reader{fields: fields}).suggest(name))
	}
	return found, nil
}

// Explain writes the settings that a name is of, as WriteReference does.
func (s Schema) Explain(w io.Writer, name string) error {
	if name == "" {
		return s.WriteReference(w)
	}
	found, err := s.ReferenceOf(name)
	if len(found) > 0 {
		err = write(w, found, true, notes)
	}
	described, derr := s.describe(w, name, "")
	if described && len(found) == 0 {
		err = nil
	}
	return errors.Join(err, derr)
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
