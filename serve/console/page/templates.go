package page

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"
	"text/template/parse"
	"time"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the pages, by the set that has them and the names of their files. What is common to
// pages is in files that begin with an underscore. A page is parsed when it is first asked for: all of
// them parsed take several MB, and most processes show few or none.
type templates map[string]func() (*template.Template, error)

func (f *Frame) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": f.asset, "num": Number, "cut": Cut, "tone": tone, "age": Age, "when": when, "state": state,
		"copied": copied, "copies": copies, "command": command, "path": Address, "words": Words, "span": Span, "bytes": size, "rate": rate, "add": func(a, b int) int { return a + b }, "seconds": func(s float64) string { return Age(time.Duration(s * float64(time.Second))) },
		"put": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}
}

// indent is the end of a line and the indentation of the next. It is for who reads a template, and nothing
// of it is in the page. A line without indentation keeps its end, as in a pre.
var indent = regexp.MustCompile(`\n\t+`)

// read parses files, without their indentation.
func read(t *template.Template, files fs.FS, names ...string) (*template.Template, error) {
	t, err := t.ParseFS(files, names...)
	if err != nil {
		return nil, err
	}
	for _, named := range t.Templates() {
		if named.Tree != nil {
			flatten(named.Tree.Root)
		}
	}
	return t, nil
}

// flatten takes indentation out of a parsed template; out of its source, errors would name other lines.
func flatten(list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			n.Text = indent.ReplaceAll(n.Text, nil)
		case *parse.IfNode:
			flatten(n.List)
			flatten(n.ElseList)
		case *parse.RangeNode:
			flatten(n.List)
			flatten(n.ElseList)
		case *parse.WithNode:
			flatten(n.List)
			flatten(n.ElseList)
		}
	}
}

// parse reads what the pages of each set have in common, and finds the pages. Each set has its own
// names, for functions and parts too; those of the frame are for all, and no set has others of the same
// name.
func (f *Frame) parse(sets []*Set) (templates, error) {
	common, err := read(template.New("").Funcs(f.funcs()), templateFiles, "templates/_*.html")
	if err != nil {
		return nil, err
	}
	all := templates{}
	if err := all.find("", common, templateFiles); err != nil {
		return nil, err
	}
	for _, s := range sets {
		if s.Templates == nil {
			continue
		}
		own := template.Must(common.Clone()).Funcs(s.Funcs)
		if parts, err := fs.Glob(s.Templates, "templates/_*.html"); err != nil {
			return nil, err
		} else if len(parts) > 0 {
			if err := f.apart(common, s); err != nil {
				return nil, fmt.Errorf("pages of %s: %w", cmp.Or(s.Name, "the console"), err)
			}
			if own, err = read(own, s.Templates, parts...); err != nil {
				return nil, err
			}
		}
		if err := all.find(s.Name+"/", own, s.Templates); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// apart refuses parts of a set that are called as parts of the frame.
func (f *Frame) apart(common *template.Template, s *Set) error {
	own, err := template.New("").Funcs(f.funcs()).Funcs(s.Funcs).ParseFS(s.Templates, "templates/_*.html")
	if err != nil {
		return err
	}
	for _, t := range own.Templates() {
		if name := t.Name(); name != "" && !strings.HasSuffix(name, ".html") && common.Lookup(name) != nil {
			return fmt.Errorf("the part %q is the frame's", name)
		}
	}
	return nil
}

// find finds the pages of a set.
func (ts templates) find(set string, common *template.Template, files fs.FS) error {
	names, err := fs.Glob(files, "templates/[a-z]*.html")
	for _, name := range names {
		ts[set+strings.TrimSuffix(path.Base(name), ".html")] = sync.OnceValues(func() (*template.Template, error) {
			return read(template.Must(common.Clone()), files, name)
		})
	}
	return err
}

// Parse parses every page, as a first visit of each does.
func (f *Frame) Parse() error {
	for name, parsed := range f.templates {
		if _, err := parsed(); err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
	}
	return nil
}

// execute writes a page: of its set, else one that all sets have.
func (ts templates) execute(w io.Writer, page *View) error {
	parsed := ts[page.set.Name+"/"+page.File]
	if parsed == nil {
		parsed = ts[page.File]
	}
	if parsed == nil {
		return fmt.Errorf("there is no template %q", page.File)
	}
	t, err := parsed()
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, "layout", page)
}
