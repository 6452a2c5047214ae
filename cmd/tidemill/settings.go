package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
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
	c, err := config.Load(config.Layers{File: path, Getenv: e.getenv, Flags: flags})
	if err != nil {
		return nil, fmt.Errorf("the configuration is wrong:\n%w", indented{err})
	}
	return c, nil
}

// indented sets each line of an error apart.
type indented struct{ error }

func (i indented) Error() string { return "  " + strings.ReplaceAll(i.error.Error(), "\n", "\n  ") }

func (i indented) Unwrap() error { return i.error }

// projectFlags reads NAME=KEY pairs.
func projectFlags(pairs []string) ([]config.Project, error) {
	var ps []config.Project
	for _, p := range pairs {
		name, key, ok := strings.Cut(p, "=")
		if !ok || name == "" || key == "" {
			return nil, errors.New("--project wants NAME=KEY, like --project shop=my-ingest-key")
		}
		ps = append(ps, config.Project{Name: name, Key: tidemill.NewSecret(key)})
	}
	return ps, nil
}

// logger writes to standard error, as the configuration says.
func logger(c *config.Loaded, e env) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // checked before
	o := &slog.HandlerOptions{Level: level}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(e.err, o))
	}
	return slog.New(slog.NewTextHandler(e.err, o))
}
