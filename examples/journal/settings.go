package main

import (
	"path/filepath"

	"github.com/tidemill/tidemill/config"
)

// name is what the system is called in the file, in arguments, in its queue and in its API.
const name = "journal"

// group is what the settings are in a configuration.
var group = config.Group{Name: name, New: func(c *config.Loaded) config.Settings { return &settings{c: c} }}

type settings struct {
	File    string `yaml:"file" env:"JOURNAL_FILE" help:"the file that notes are written to; empty: journal.txt in the data folder"`
	Longest int    `yaml:"longest" env:"JOURNAL_LONGEST" default:"280" help:"letters that a note may have; a longer one is a dead letter" range:"[1,10000]"`

	c *config.Loaded // that they are a part of
}

// Configured says whether anything says that the system is to run.
func (s *settings) Configured() bool { return s.c.Given("journal.file") }

// Check refuses what cannot work.
func (s *settings) Check() error {
	k := config.NewChecker(s.c, name)
	k.Limits()
	return k.Err()
}

func (s *settings) path() string {
	if s.File != "" {
		return s.File
	}
	return filepath.Join(s.c.Data, "journal.txt")
}
