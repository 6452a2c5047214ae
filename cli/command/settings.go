package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/state/project"
)

// defaultConfig is read where it lies in the working folder and no other is named.
const defaultConfig = "tidemill.yaml"

// Settings are the flags that make up the configuration.
type Settings struct {
	Config string `help:"Configuration file. Default: tidemill.yaml if there is one." type:"path" placeholder:"FILE" env:"TIDEMILL_CONFIG"`
	Data   string `help:"Folder of the embedded database. Default: ./tidemill-data." placeholder:"DIR"`
}

// Load reads the configuration with further flags by path.
func (s *Settings) Load(e Env, flags map[string]string) (*config.Loaded, error) {
	c, err := s.Read(e, flags)
	if err != nil {
		return nil, WrongConfig{Err: err}
	}
	return c, nil
}

// LoadToLook reads a configuration that does not run: secrets that are not set have stand-ins.
func (s *Settings) LoadToLook(e Env) (*config.Loaded, error) {
	l := s.layers(e, nil)
	l.StandIns = true
	c, err := e.Table.Settings().Load(l)
	if err != nil {
		return nil, WrongConfig{Err: err}
	}
	return c, nil
}

// Read is load, with the configuration as far as it could be read where it is wrong.
func (s *Settings) Read(e Env, flags map[string]string) (*config.Loaded, error) {
	return e.Table.Settings().Load(s.layers(e, flags))
}

// layers are file, environment and flags.
func (s *Settings) layers(e Env, flags map[string]string) config.Layers {
	if flags == nil {
		flags = map[string]string{}
	}
	if s.Data != "" {
		flags["data"] = s.Data
	}
	return config.Layers{File: s.File(), Getenv: e.Getenv, Flags: flags}
}

// File is the configuration file; empty: there is none.
func (s *Settings) File() string {
	if s.Config != "" {
		return s.Config
	}
	if _, err := os.Stat(defaultConfig); err == nil {
		return defaultConfig
	}
	return ""
}

// Warnings are what is allowed in a configuration and hardly meant.
func Warnings(e Env, c *config.Loaded) []string {
	var environ []string
	if e.Environ != nil {
		environ = e.Environ()
	}
	return append([]string{}, c.Warnings(environ)...)
}

// WrongConfig is all that is wrong with the configuration, a line each.
type WrongConfig struct{ Err error }

func (w WrongConfig) Error() string {
	var b strings.Builder
	b.WriteString("the configuration is wrong:")
	for _, m := range MistakesOf(w.Err) {
		b.WriteString("\n  " + m.Error())
	}
	return b.String()
}

// ProjectFlags reads NAME=KEY pairs.
func ProjectFlags(pairs []string) ([]config.Project, error) {
	var ps []config.Project
	for _, p := range pairs {
		name, key, ok := strings.Cut(p, "=")
		if !ok || name == "" || key == "" {
			return nil, UsageError{Err: errors.New("--project wants NAME=KEY, like --project shop=my-ingest-key")}
		}
		if err := project.CheckKey(key); err != nil {
			return nil, UsageError{Err: fmt.Errorf("--project %s: %w", name, err)}
		}
		ps = append(ps, config.Project{Name: name, Key: tidemill.NewSecret(key)})
	}
	return ps, nil
}

// Logger writes to standard error; a command that only looks is quiet where nothing is
// wrong.
func Logger(c config.Log, e Env, quiet bool) *slog.Logger {
	level := c.Slog()
	if quiet {
		level = max(level, slog.LevelWarn)
	}
	return LoggerAt(c, e, level)
}

// LoggerAt is Logger with a level that may change.
func LoggerAt(c config.Log, e Env, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(AsJSON(e.Err), o))
	}
	return slog.New(slog.NewTextHandler(e.Err, o))
}

// MistakesOf takes apart what config.Load joined.
func MistakesOf(err error) []error {
	switch e := err.(type) {
	case nil:
		return nil
	case WrongConfig:
		return MistakesOf(e.Err)
	case interface{ Unwrap() []error }:
		var all []error
		for _, m := range e.Unwrap() {
			all = append(all, MistakesOf(m)...)
		}
		return all
	default:
		return []error{err}
	}
}
