package connect

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
)

// Contact opens the systems one after the other as a start does, on an empty data folder that is
// removed again, and has their servers looked at as the doctor does. What a start sets up on a server
// (tables, topics) is set up. A system that cannot be opened is a finding. Its error is that of the folder.
func Contact(ctx context.Context, table system.Table, c *config.Loaded, o Options) (fs []preflight.Finding, err error) {
	folder, err := os.MkdirTemp("", "tidemill-contact-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	empty := *c
	empty.Data = folder
	for _, name := range o.Systems {
		o.Systems = []string{name}
		for _, f := range contact(ctx, table, &empty, o) {
			if !slices.Contains(fs, f) { // a server of several systems
				fs = append(fs, f)
			}
		}
	}
	return fs, nil
}

func contact(ctx context.Context, table system.Table, c *config.Loaded, o Options) (fs []preflight.Finding) {
	name := "system " + o.Systems[0]
	i, err := Open(ctx, table, c, o)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return []preflight.Finding{finding(name, preflight.Warn, err.Error(), "stop what listens there, unless it is an instance with this configuration")}
	case err != nil:
		return []preflight.Finding{finding(name, preflight.Fail, err.Error(), "")}
	}
	for _, look := range i.Looks() {
		fs = append(fs, look(ctx)...)
	}
	if err := i.Close(); err != nil {
		return append(fs, finding(name, preflight.Fail, err.Error(), ""))
	}
	return append(fs, finding(name, preflight.OK, "it can be opened", ""))
}
