package config

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// Schema is every setting of a process: the common ones, which are Config, and behind them
// those of its systems. It has the functions that are about settings without values.
type Schema []Group

// Group is the settings of one system.
type Group struct {
	Name string // in the file, where all of them are below it

	// New makes them without values, which Load gives them. They are a pointer to a struct with the
	// tags of Config, and may keep the configuration that they are a part of.
	New func(*Loaded) Settings

	Unit time.Duration // of durations that are written without one; 0: they are refused

	// Late says that what is wrong with the settings is said only to who runs the system, because
	// many of their variables have names that other programs use too: Load does not call Check, and a
	// value that cannot be read is not in force and is named by the Checker.
	Late bool

	Kafka bool // the common Kafka is for the system, where that is configured
}

// Settings are those of a system. They may also have
//
//	Example() string    // what their lists hold, in the file that init writes
//	Warnings() []string // what is allowed and hardly meant, each with its place
//	OwnLog() (Log, bool) // of a process that runs it; and whether that is the default, too
type Settings interface {
	// Configured says whether anything says that the system is to run.
	Configured() bool

	// Check refuses what cannot work. Its error names every mistake. It connects to nothing.
	Check() error
}

// group is a group of a configuration.
type group struct {
	Group
	settings Settings
}

func (g *group) prefix() string { return g.Name + "." }

func (g *group) fields() []Field { return fieldsIn(g.value(), g.prefix(), g.Unit, true) }

func (g *group) value() reflect.Value { return reflect.ValueOf(g.settings).Elem() }

// blank is a configuration without values.
func (s Schema) blank() *Loaded {
	c := &Loaded{From: map[string]string{}, layers: map[string]layer{}, places: map[string][]string{}, wrong: map[string]error{}, secrets: &secrets{all: map[string]tidemill.Secret{}}}
	for _, g := range s {
		c.groups = append(c.groups, group{g, g.New(c)})
	}
	return c
}

// Of finds the settings of a system by their type, in a configuration that was loaded by a
// Schema with them.
func Of[S Settings](c *Loaded) S {
	for _, g := range c.groups {
		if s, ok := g.settings.(S); ok {
			return s
		}
	}
	panic(fmt.Sprintf("config: there is no group with %T", *new(S)))
}

// Configured says whether anything says that a system is to run.
func (c *Loaded) Configured(name string) bool {
	return slices.ContainsFunc(c.groups, func(g group) bool { return g.Name == name && g.settings.Configured() })
}

// KafkaIsUsed says whether a system is configured that the common Kafka is for.
func (c *Loaded) KafkaIsUsed() bool {
	return slices.ContainsFunc(c.groups, func(g group) bool { return g.Kafka && g.settings.Configured() })
}
