package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func file(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "tidemill.yaml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func Load(l Layers) (*Loaded, error) { return Schema(nil).Load(l) }

func Reference() []Field { return Schema(nil).Reference() }

func WriteReference(w io.Writer) error { return Schema(nil).WriteReference(w) }
