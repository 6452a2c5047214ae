package console

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the pages by the names of their files. What is common to pages is in files that begin
// with an underscore.
type templates map[string]*template.Template

func parseTemplates(a *assets) (templates, error) {
	common := template.New("").Funcs(template.FuncMap{
		"asset": func(name string) string { return a.urls[name] }, "num": number, "cut": cut, "tone": tone, "age": age,
		"path": address, "words": func(s string) string { return strings.ReplaceAll(s, "_", " ") }, "span": span, "bytes": size, "rate": rate, "add": func(a, b int) int { return a + b }, "seconds": func(s float64) string { return age(time.Duration(s * float64(time.Second))) },
		"put": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	})
	common, err := common.ParseFS(templateFiles, "templates/_*.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(templateFiles, "templates/[a-z]*.html")
	if err != nil {
		return nil, err
	}
	all := templates{}
	for _, name := range names {
		t, err := template.Must(common.Clone()).ParseFS(templateFiles, name)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return all, nil
}

func (ts templates) execute(w io.Writer, page *view) error {
	t := ts[page.file]
	if t == nil {
		return fmt.Errorf("there is no template %q", page.file)
	}
	return t.ExecuteTemplate(w, "layout", page)
}
