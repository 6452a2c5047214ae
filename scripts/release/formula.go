package main

import (
	_ "embed"
	"io"
	"path/filepath"
	"text/template"
)

//go:embed tidemill.rb.tmpl
var formulaText string

// formula writes what Homebrew installs from.
func (r *release) formula() error {
	t, err := template.New("tidemill.rb").Funcs(template.FuncMap{"sum": func(target string) (string, error) { return sumOf(r.name(target + ".tar.gz")) }}).Parse(formulaText)
	if err != nil {
		return err
	}
	return written(filepath.Join(r.out, "tidemill.rb"), func(w io.Writer) error { return t.Execute(w, map[string]string{"Version": r.version}) })
}
