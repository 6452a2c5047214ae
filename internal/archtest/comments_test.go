package archtest

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachPackageSaysWhatItIs holds that each package has one package comment.
func TestEachPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		files, err := filepath.Glob(filepath.Join("..", "..", p.rel, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && !strings.HasSuffix(name, "_test.go") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s has %d package comments, want one", p.rel, n)
		}
	}
}
