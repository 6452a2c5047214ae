package cli

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

// settings are the flags that make up the configuration.
type settings struct {
	Config string `help:"Configuration file. Default: tidemill.yaml if there is one." type:"path" placeholder:"FILE" env:"TIDEMILL_CONFIG"`
	Data   string `help:"Folder of the embedded database. Default: ./tidemill-data." placeholder:"DIR"`
}

// load reads the configuration with further flags by path.
func (s *settings) load(e env, flags map[string]string) (*config.Loaded, error) {
	c, err := s.read(e, flags)
	if err != nil {
		return nil, wrongConfig{err}
	}
	return c, nil
}

// read is load, with the configuration as far as it could be read where it is wrong.
func (s *settings) read(e env, flags map[string]string) (*config.Loaded, error) {
	if flags == nil {
		flags = map[string]string{}
	}
	if s.Data != "" {
		flags["data"] = s.Data
	}
	path := s.Config
	if path == "" {
		if _, err := os.Stat(defaultConfig); err == nil {
			path = defaultConfig
		}
	}
	return e.table.Settings().Load(config.Layers{File: path, Getenv: e.getenv, Flags: flags})
}

// warnings are what is allowed in a configuration and hardly meant.
func warnings(e env, c *config.Loaded) []string {
	var environ []string
	if e.environ != nil {
		environ = e.environ()
	}
	return append([]string{}, c.Warnings(environ)...)
}

// wrongConfig is all that is wrong with the configuration, a line each.
type wrongConfig struct{ error }

func (w wrongConfig) Error() string {
	var b strings.Builder
	b.WriteString("the configuration is wrong:")
	for _, m := range mistakesOf(w.error) {
		b.WriteString("\n  " + m.Error())
	}
	return b.String()
}

// projectFlags reads NAME=KEY pairs.
func projectFlags(pairs []string) ([]config.Project, error) {
	var ps []config.Project
	for _, p := range pairs {
		name, key, ok := strings.Cut(p, "=")
		if !ok || name == "" || key == "" {
			return nil, usageError{errors.New("--project wants NAME=KEY, like --project shop=my-ingest-key")}
		}
		if err := project.CheckKey(key); err != nil {
			return nil, usageError{fmt.Errorf("--project %s: %w", name, err)}
		}
		ps = append(ps, config.Project{Name: name, Key: tidemill.NewSecret(key)})
	}
	return ps, nil
}

// logger writes to standard error; a command that only looks is quiet where nothing is
// wrong.
func logger(c config.Log, e env, quiet bool) *slog.Logger {
	level := c.Slog()
	if quiet {
		level = max(level, slog.LevelWarn)
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(asJSON(e.err), o))
	}
	return slog.New(slog.NewTextHandler(e.err, o))
}
