package flow

import "log/slog"

// levelOf makes the first error in a row, and then each tenth, louder than the rest.
func levelOf(inARow int) slog.Level {
	if inARow == 1 || inARow%10 == 0 {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func pipelineAttr(name string) slog.Attr { return slog.String("pipeline", name) }
func doingAttr(doing string) slog.Attr   { return slog.String("doing", doing) }
func errorAttr(err error) slog.Attr      { return slog.String("error", err.Error()) }
func inARowAttr(n int) slog.Attr         { return slog.Int("in_a_row", n) }
