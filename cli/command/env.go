// Package command is what commands are made of, those of systems and the general ones: how they find
// an instance and ask its API, read their flags and events, and write tables and texts to a terminal.
package command

import (
	"context"
	"io"
	"net/http"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/when"
)

// Env is what a command sees of the world.
type Env struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Getenv func(string) string

	Environ func() []string // names and values; nil: none
	Table   system.Table    // the systems that there are
	Build                   // of this program
	Program string          // how this program is called, in commands that are shown

	// Open opens the data of some systems in this process, to be looked at. The API asks for the token.
	Open func(ctx context.Context, e Env, c *config.Loaded, systems []string, token tidemill.Secret) (Opened, error)
}

// Opened answers as an instance that runs would, until it is closed.
type Opened interface {
	http.Handler
	Close() error
}

// UsageError is a command line that is wrong in a way that only its command can tell.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }

// Durations read those of flags as all others are.
type Durations struct{}

// Decode implements kong.Mapper.
func (Durations) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := when.Duration(text)
	if err != nil {
		return err
	}
	target.Set(reflect.ValueOf(d))
	return nil
}
