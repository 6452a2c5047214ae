package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes those of a Linux, as deploy/package/nfpm.yaml says.
func (r *release) packages(t target) error {
	config, err := nfpm.ParseFileWithEnvMapping(filepath.FromSlash("deploy/package/nfpm.yaml"), func(name string) string {
		return map[string]string{"VERSION": r.version, "ARCH": t.arch, "STAGE": filepath.ToSlash(r.staged(t))}[name]
	})
	if err != nil {
		return fmt.Errorf("nfpm.yaml: %w", err)
	}
	for _, format := range []string{"deb", "rpm"} {
		info, err := config.Get(format)
		if err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		info.MTime = r.date
		if err := nfpm.PrepareForPackager(nfpm.WithDefaults(info), format); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		if err := written(r.name(t.os+"_"+t.arch+"."+format), func(w io.Writer) error { return packager.Package(info, w) }); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}
