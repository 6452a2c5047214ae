package mqttbroker

import (
	"context"
	"log/slog"
)

// quiet passes on the library's log of errors as records of ours, one level lower: clients come and
// go, and their mistakes are theirs. It leaves out attributes with whole packets, which may hold
// passwords and payloads.
type quiet struct {
	log *slog.Logger
	as  []slog.Attr // of a logger that the library made
}

func (q *quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.log.Enabled(ctx, l-4)
}

func (q *quiet) Handle(ctx context.Context, r slog.Record) error {
	of := map[string]string{}
	note := func(a slog.Attr) bool { of[a.Key] = a.Value.String(); return true }
	for _, a := range q.as {
		note(a)
	}
	r.Attrs(note)
	if r.Level >= slog.LevelError {
		// Logged when the library of the embedded broker has an error; `text` has its words.
		// To do: nothing, if clients go on; report it with its text, if they do not.
		q.log.WarnContext(ctx, "mqtt broker: the library had an error", "text", r.Message, "error", of["error"], "client", of["client"], "hook", of["hook"])
		return nil
	}
	// Logged when a client of the embedded broker made a mistake, or ended without a word; `text` has the
	// library's words.
	q.log.InfoContext(ctx, "mqtt broker: trouble with a client", "text", r.Message, "error", of["error"], "client", of["client"])
	return nil
}

func (q *quiet) WithAttrs(as []slog.Attr) slog.Handler {
	return &quiet{q.log, append(append([]slog.Attr{}, q.as...), as...)}
}

func (q *quiet) WithGroup(string) slog.Handler { return q } // the library makes none
