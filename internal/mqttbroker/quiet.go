package mqttbroker

import (
	"context"
	"log/slog"
)

// quiet passes on the library's log of errors, one level lower: clients come and go, and their
// mistakes are theirs. It leaves out attributes with whole packets, which may hold passwords
// and payloads.
type quiet struct{ to slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.to.Enabled(ctx, l-4)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level-4, "mqtt broker: "+r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if harmless(a) {
			out.AddAttrs(a)
		}
		return true
	})
	return q.to.Handle(ctx, out)
}

func (q quiet) WithAttrs(as []slog.Attr) slog.Handler {
	var kept []slog.Attr
	for _, a := range as {
		if harmless(a) {
			kept = append(kept, a)
		}
	}
	return quiet{q.to.WithAttrs(kept)}
}

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.to.WithGroup(name)} }

// harmless reports whether an attribute is known to hold no packet.
func harmless(a slog.Attr) bool {
	switch a.Key {
	case "client", "listener", "remote", "error", "hook", "id", "address", "protocol":
		return true
	}
	return false
}
