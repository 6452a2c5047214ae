package config

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
)

// writeLists writes what the lists hold, as remarks: each element with its place, and as it is in
// force. No secret is in it, and no header's value, which may be one: an element that has such has a
// method Shown.
func (c *Loaded) writeLists(w io.Writer) error {
	var b strings.Builder
	for _, l := range c.lists() {
		if l.path == "projects" { // which are written as they are set
			continue
		}
		for i := range l.value.Len() {
			e := l.value.Index(i).Interface()
			if s, ok := e.(interface{ Shown() any }); ok {
				e = s.Shown()
			}
			text, err := yaml.MarshalWithOptions(e, yaml.OmitZero(), yaml.Indent(2))
			if err != nil {
				return err
			}
			place, _, _ := strings.Cut(c.Element(l.path, i), ": ")
			fmt.Fprintf(&b, "# %s, number %d, from %s\n", l.path, i+1, place)
			for line := range strings.Lines(string(text)) {
				b.WriteString("#   " + line)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
