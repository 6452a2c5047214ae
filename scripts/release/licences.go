package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|aplv2)`)

// licences writes the licences of all that is in a target's binary.
func (r *release) licences(ctx context.Context, t target, file string) error {
	cmd := goCommand(ctx, t, "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}", "./cmd/tidemill")
	cmd.Stderr = os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(listed)), "\n")
	slices.Sort(lines)
	root, err := goCommand(ctx, target{}, "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	lines = append([]string{"Go " + runtime.Version() + " " + strings.TrimSpace(string(root))}, slices.Compact(lines)...)
	var all bytes.Buffer
	for _, line := range lines {
		name, dir, _ := cutLast(line)
		if err := addLicence(&all, name, dir); err != nil {
			return fmt.Errorf("licence of %s: %w", name, err)
		}
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}

// cutLast cuts a line before its last word.
func cutLast(line string) (before, last string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return line, "", false
	}
	return line[:i], line[i+1:], true
}

// addLicence adds the texts in a module's folder.
func addLicence(all *bytes.Buffer, name, dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, f := range files {
		if f.IsDir() || !licenceFile.MatchString(f.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "==== %s: %s ====\n\n%s\n\n", name, f.Name(), bytes.TrimSpace(text))
		found = true
	}
	if !found {
		return errors.New("there is none in its folder")
	}
	return nil
}
