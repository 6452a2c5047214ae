// Package gofiles walks the Go files of a module, for tests that look at its source.
package gofiles

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// Walk calls do with each Go file below a folder, tests left out, and its path from there, with
// slashes. Hidden folders, node_modules, testdata and those that skip names are left out with all
// below them; nil: no others are.
func Walk(root string, skip func(rel string) bool, do func(rel, path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch name := d.Name(); {
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || skip != nil && skip(rel)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return do(rel, path)
	})
}
