package system

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/project"
)

// EnsureProjects makes the configured projects and keys.
func (h *Host) EnsureProjects(ctx context.Context, all project.Projects) error {
	return h.ensureProjects(ctx, all, h.Config)
}

// ReloadProjects makes the projects and keys of another configuration. Keys that it has not any more
// stay good, as after a restart.
func (h *Host) ReloadProjects(ctx context.Context, next *config.Loaded) (*Prepared, error) {
	if h.Projects == nil {
		return &Prepared{}, nil
	}
	return &Prepared{}, h.ensureProjects(ctx, h.Projects, next)
}

func (h *Host) ensureProjects(ctx context.Context, all project.Projects, c *config.Loaded) error {
	for _, p := range c.Projects {
		if err := h.checkShort(ctx, all, p); err != nil {
			return fmt.Errorf("project %q: %w", p.Name, err)
		}
		if err := all.Ensure(ctx, project.Project{ID: project.ID(p.Name), Name: p.Name}, project.HashOf(p.Key)); err != nil {
			return fmt.Errorf("project %q: %w", p.Name, err)
		}
	}
	return nil
}

// checkShort refuses a new key that others than this machine can guess. One that is known already
// stands in web pages, and stays good; config.Warnings names it.
func (h *Host) checkShort(ctx context.Context, all project.Projects, p config.Project) error {
	host, _, err := net.SplitHostPort(h.Config.Listen)
	if n := len(p.Key.Reveal()); n < config.LeastKey && (err != nil || !config.Loopback(host)) {
		_, err := all.ByKey(ctx, project.HashOf(p.Key))
		if errors.Is(err, project.ErrUnknown) {
			return fmt.Errorf("its new key has %d characters, and %s can be reached from other machines: use %d or more", n, h.Config.Listen, config.LeastKey)
		}
		return err
	}
	return nil
}
