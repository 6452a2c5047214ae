package cli

import (
	"log/slog"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/logfiles"
)

// logTo is the log of what runs: on standard error, and in files too where the configuration
// names a folder. What goes wrong with these is told on standard error; end closes them.
func logTo(c *config.LogFiles, l config.Log, e command.Env, level slog.Leveler) (log *slog.Logger, end func() error, err error) {
	log = command.LoggerAt(l, e, level)
	if c.Folder == "" {
		return log, func() error { return nil }, nil
	}
	files, err := logfiles.Open(logfiles.Options{Folder: c.Folder, Level: level, Most: int64(c.Most),
		Keep: logfiles.Keep{Debug: c.Debug, Info: c.Info, Warn: c.Warn, Error: c.Error},
		Failed: func(err error) {
			if err != nil {
				// Logged when the files of the log can no longer be written; records go on to standard
				// error. Once for each outage.
				// To do: give the folder room or rights; then the files go on by themselves.
				log.Error("the log cannot be written to its files", "folder", c.Folder, "error", err)
			} else {
				// Logged when the files of the log can be written again; they lack what was logged
				// meanwhile.
				log.Info("the log is written to its files again", "folder", c.Folder)
			}
		}})
	if err != nil {
		return nil, nil, err
	}
	return slog.New(slog.NewMultiHandler(log.Handler(), files)), files.Close, nil
}
