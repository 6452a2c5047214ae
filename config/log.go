package config

import (
	"log/slog"
	"slices"
)

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level" reload:"true" env:"TIDEMILL_LOG_LEVEL,LOG_LEVEL" default:"info" of:"trace|debug|info|warn|error|fatal|panic" help:"the least level that is logged"`
	Format string `yaml:"format" env:"TIDEMILL_LOG_FORMAT" default:"text" of:"text|json" help:"text for people, json for machines"`
}

// LogFiles are the log in files, beside the one on standard error.
type LogFiles struct {
	Folder string `yaml:"folder" env:"TIDEMILL_LOG_FILES_FOLDER" help:"a folder for the log, beside the one on standard error: JSON, one file for each level and day; empty: none"`
	Debug  int    `yaml:"debug_days" env:"TIDEMILL_LOG_FILES_DEBUG_DAYS" default:"7" help:"how long files of the levels trace and debug are kept" allow:"1 to 36500"`
	Info   int    `yaml:"info_days" env:"TIDEMILL_LOG_FILES_INFO_DAYS" default:"30" help:"how long files of the level info are kept" allow:"1 to 36500"`
	Warn   int    `yaml:"warn_days" env:"TIDEMILL_LOG_FILES_WARN_DAYS" default:"90" help:"how long files of the level warn are kept" allow:"1 to 36500"`
	Error  int    `yaml:"error_days" env:"TIDEMILL_LOG_FILES_ERROR_DAYS" default:"365" help:"how long files of the levels error, fatal and panic are kept" allow:"1 to 36500"`
	Most   Size   `yaml:"most" env:"TIDEMILL_LOG_FILES_MOST" default:"1GiB" help:"size of the files of one level together; where they are more, the oldest go before their time" allow:"1MiB or more"`
}

// check refuses what cannot be kept.
func (l *LogFiles) check(ok func(good bool, path string)) {
	const longest = 36500 // a century
	ok(l.Debug >= 1 && l.Debug <= longest, "log_files.debug_days")
	ok(l.Info >= 1 && l.Info <= longest, "log_files.info_days")
	ok(l.Warn >= 1 && l.Warn <= longest, "log_files.warn_days")
	ok(l.Error >= 1 && l.Error <= longest, "log_files.error_days")
	ok(l.Most >= 1<<20, "log_files.most")
}

// LogOf is the log of a process that runs these systems: Log, but for a system that has a log of
// its own (see Settings). With it each of the two settings is looked at by itself: it is Log's or the
// system's, whichever came from the later layer (defaults, file, environment, flags), and the
// system's where both came from the same one. Where neither was given, the default is the system's
// if it says so.
func (c *Loaded) LogOf(systems []string) Log {
	l := c.Log
	for _, g := range c.groups {
		s, ok := g.settings.(interface {
			OwnLog() (log Log, byDefault bool)
		})
		if !ok || !slices.Contains(systems, g.Name) {
			continue
		}
		its, wins := s.OwnLog()
		rules := func(path string) bool {
			common, own := c.layers[path], c.layers[g.prefix()+path]
			if common == byDefault && own == byDefault {
				return wins
			}
			return own >= common
		}
		if rules("log.level") {
			l.Level = its.Level
		}
		if rules("log.format") {
			l.Format = its.Format
		}
	}
	return l
}

// Slog is the level as package slog knows it: trace is below its lowest, fatal and panic
// are above its highest.
func (l Log) Slog() slog.Level {
	const step = slog.LevelError - slog.LevelWarn
	switch l.Level {
	case "trace":
		return slog.LevelDebug - step
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	case "fatal":
		return slog.LevelError + step
	case "panic":
		return slog.LevelError + 2*step
	}
	return slog.LevelInfo
}
