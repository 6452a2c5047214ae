// Package cli is the command line of a program that runs Tidemill's systems: `run` starts them, the
// other commands ask what runs.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/connect/system"
)

// Main runs the command of os.Args, of a program with these systems, and ends the process.
func Main(build command.Build, table system.Table) {
	if b, ok := debug.ReadBuildInfo(); ok {
		build = build.Or(b)
	}
	// Go's HTTP client writes there what a server says without being asked, a secret that it
	// repeats for instance. Whatever we have to say goes to our own log.
	log.SetOutput(io.Discard)
	// The first signal asks for an orderly stop. After it the default action is back, so
	// that a second one ends the process at once: nothing unconfirmed was acknowledged.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], command.Env{Table: table, Build: build, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Program: program()}))
}

// program is how whoever called this program can call it again: by its name where that finds
// it, else as it was called.
func program() string {
	self, err := os.Executable()
	if found, lookErr := exec.LookPath("tidemill"); lookErr == nil && err == nil && command.SameFile(found, self) {
		return "tidemill"
	}
	if err != nil || strings.Contains(filepath.ToSlash(self), "/go-build") { // go run
		return "go run ./cmd/tidemill"
	}
	return os.Args[0]
}

type commands struct {
	Run        runCmd        `cmd:"" help:"Run systems: take events in, process and deliver them."`
	Init       initCmd       `cmd:"" help:"Write a commented configuration file to start from."`
	Config     configCmd     `cmd:"" help:"Check, test, compare, show and explain the configuration."`
	Reload     reloadCmd     `cmd:"" help:"Read the configuration of a running instance again, and apply what has changed. The exit status is 3 if something needs a restart."`
	Queue      queueCmd      `cmd:"" help:"See, move, pause, drain and limit the jobs in queues."`
	Find       findCmd       `cmd:"" help:"Find everything that has an id: events, jobs, dead letters, persons, windows, partners."`
	Explain    explainCmd    `cmd:"" help:"Explain the life of one event: what happened, why it waits, what comes next."`
	Dead       deadCmd       `cmd:"" help:"List, show, edit, replay, delete and export dead letters."`
	Operations operationsCmd `cmd:"" help:"Change many things: start, list, show and stop operations."`
	Audit      auditCmd      `cmd:"" help:"Prove that no event is missing, and list who did what. The exit status is 1 if the books do not balance."`
	Status     statusCmd     `cmd:"" help:"Show the pipelines: state, counts, last error."`
	Pause      pauseCmd      `cmd:"" help:"Pause a pipeline: events still come in, and wait."`
	Resume     resumeCmd     `cmd:"" help:"Resume a paused pipeline."`
	Backup     backupCmd     `cmd:"" help:"Back up the data folder, also while an instance runs."`
	Restore    restoreCmd    `cmd:"" help:"Restore a data folder from a backup."`
	Plan       planCmd       `cmd:"" help:"Compute servers for so many events a second, from what was measured."`
	Doctor     doctorCmd     `cmd:"" help:"Check servers and settings, and say what to mend."`
	Postgres   postgresCmd   `cmd:"" help:"Prepare a PostgreSQL: roles, and tables of a new version."`
	Project    projectCmd    `cmd:"" help:"List projects, and list, make and revoke their ingest keys."`
	User       userCmd       `cmd:"" help:"Add, list, change and remove the users of console and API."`
	Token      tokenCmd      `cmd:"" help:"Print the API's token; make, list and revoke others for programs."`
	Sessions   sessionsCmd   `cmd:"" help:"List who is logged in, and end sessions."`
	Console    consoleCmd    `cmd:"" help:"Open the console in a browser."`
	View       viewCmd       `cmd:"" help:"Save views of the console: names for its pages, yours or shared."`
	API        apiCmd        `cmd:"" name:"api" help:"Call an operation of the API by its name, or list them all."`
	Help       helpCmd       `cmd:"" help:"Explain a command, as its --help does."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print the script that completes commands in your shell."`

	VersionFlag kong.VersionFlag `name:"version" hidden:""`
}

const description = `Tidemill takes events in, decides what each means, delivers it, and accounts for every one.

Start with:

  tidemill run                      everything embedded, in ./tidemill-data
  tidemill send events.ndjson       some events
  tidemill events                   what became of them
  tidemill audit                    the proof that no event is missing`

// errUnbalanced makes the exit status of audit 1 without another message.
var errUnbalanced = errors.New("the books do not balance")

// run parses the arguments and runs one command: exit status 0, 1 after an error, 2 when
// the command line is wrong or two configurations cannot be compared, 3 when a reload left something for a restart.
func run(ctx context.Context, args []string, e command.Env) (status int) {
	var c commands
	exited := -1
	e.Out, e.Err, e.Open = command.OnScreen(e.Out), command.OnScreen(e.Err), opened
	out := e.Out
	if len(args) == 0 {
		args, out = []string{"--help"}, e.Err
		defer func() { status = max(status, 2) }()
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	parser, err := c.parser(e.Table, e.Version,
		kong.Writers(out, e.Err), kong.Exit(func(code int) { exited = code; panic(exited) }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(e))
	if err != nil {
		_, _ = fmt.Fprintln(e.Err, "tidemill:", err)
		return 1
	}
	defer func() { // --help ends the run from within
		if p := recover(); p != nil {
			if exited < 0 {
				panic(p)
			}
			status = exited
		}
	}()
	if asked, err := complete(ctx, parser.Model, args, e); asked {
		if err != nil {
			_, _ = fmt.Fprintln(e.Err, "tidemill:", err)
			return 1
		}
		return 0
	}
	k, err := parser.Parse(args)
	if err != nil {
		return wrongUsage(e, err, parseContext(err))
	}
	err = k.Run()
	if usage, ok := errors.AsType[command.UsageError](err); ok {
		return wrongUsage(e, usage, k)
	}
	switch {
	case errors.Is(err, errRestart):
		return 3
	case errors.Is(err, errDifferent):
		return 1
	}
	if err != nil {
		if !errors.Is(err, errUnbalanced) && !errors.Is(err, errLogged) {
			_, _ = fmt.Fprintln(e.Err, "tidemill:", err)
		}
		if _, not := errors.AsType[uncomparable](err); not {
			return 2
		}
		return 1
	}
	return 0
}

// parser reads command lines of a program with these systems.
func (c *commands) parser(table system.Table, version string, more ...kong.Option) (*kong.Kong, error) {
	c.Run.flags = newRunFlags(table)
	c.Run.Plugins = c.Run.flags.plugins()
	options := append(more, kong.Name("tidemill"), kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.Help(c.Run.flags.help),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), command.Durations{}),
		kong.Vars{"version": "tidemill " + version, "systems": strings.Join(table.Names(), ", ")})
	return kong.New(c, append(options, ofSystems(table)...)...)
}

// opened opens data in this process.
func opened(ctx context.Context, e command.Env, c *config.Loaded, systems []string, token tidemill.Secret) (command.Opened, error) {
	in, err := connect.Open(ctx, e.Table, c, connect.Options{Version: e.Version, Systems: systems, Log: command.Logger(c.Log, e, true), Token: token})
	if err != nil { // and no nil pointer in an interface
		return nil, err
	}
	return in, nil
}

// ofSystems are the commands of systems, each system's in a group of its own.
func ofSystems(table system.Table) (all []kong.Option) {
	for _, s := range table {
		if s.Commands == nil {
			continue
		}
		for _, c := range s.Commands() {
			all = append(all, kong.DynamicCommand(c.Name, c.Help, "Of "+s.Name+":", c.Do))
		}
	}
	return all
}

func parseContext(err error) *kong.Context {
	if p, ok := errors.AsType[*kong.ParseError](err); ok {
		return p.Context
	}
	return nil
}

// wrongUsage says what is wrong with the command line and where it is explained.
func wrongUsage(e command.Env, err error, k *kong.Context) int {
	command := "tidemill"
	if k != nil && k.Selected() != nil {
		command = k.Selected().FullPath()
	}
	_, _ = fmt.Fprintf(e.Err, "tidemill: %v\nSee `%s --help`.\n", err, command)
	return 2
}

// helpCmd is there to be listed: run makes --help of it.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, like dead list. Default: all commands."`
}
