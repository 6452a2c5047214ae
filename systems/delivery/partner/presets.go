package partner

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed presets/*.yaml
var presetFiles embed.FS

// Presets are the names of the partners that come with the product, in order. The head of each
// file says what it is sure of, and what not.
func Presets() []string {
	entries, err := fs.ReadDir(presetFiles, "presets")
	if err != nil {
		return nil // embedded: it exists
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Preset returns the description of a partner that comes with the product.
func Preset(name string) (Partner, error) {
	text, err := presetFiles.ReadFile("presets/" + name + ".yaml")
	if err != nil || strings.ContainsAny(name, "/.") {
		return Partner{}, fmt.Errorf("preset %q: want one of %s", name, strings.Join(Presets(), ", "))
	}
	return Parse(text)
}

// Parse reads a description in YAML. Unknown names are refused.
func Parse(text []byte) (Partner, error) {
	var p Partner
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(&p); err != nil {
		return Partner{}, fmt.Errorf("read the description of a partner: %w", err)
	}
	return p, nil
}
