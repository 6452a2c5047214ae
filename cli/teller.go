package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/connect/system"
)

// teller says what a run does: to people on standard output, and as records of the log. Where
// the log is JSON there is nothing but the log. The one key that it ever shows goes to standard
// output, never into the log.
type teller struct {
	e     command.Env
	log   *slog.Logger
	level *slog.LevelVar
	json  bool
	begun time.Time
}

// record is what also people on a terminal have just been told: there it is left out.
func (t *teller) record(msg string, args ...any) {
	if t.json || !command.Terminal(t.e.Err) {
		t.log.Info(msg, args...)
	}
}

// say is for people.
func (t *teller) say(format string, args ...any) {
	if !t.json {
		_, _ = fmt.Fprintf(t.e.Out, format, args...) // who read it may have gone
	}
}

func (t *teller) starting(cfg *config.Loaded, systems []string) {
	t.begun = time.Now()
	file := cfg.File
	if file == "" {
		file = "none"
	}
	t.record("starting", "version", t.e.Version, "go", runtime.Version(), "pid", os.Getpid(), "systems", strings.Join(systems, ", "), "configuration", file, "data", cfg.Data)
}

// listening says where it listens, how the console is reached, and what it uses.
func (t *teller) listening(systems, uses []string, url, console string) {
	t.say("tidemill %s (%s)\n  listening   %s\n", t.e.Version, runtime.Version(), url)
	if console != "" {
		t.say("  console     %s\n", console)
	}
	t.say("  systems     %s\n", strings.Join(systems, ", "))
	for _, u := range uses {
		name, what, _ := strings.Cut(u, ": ")
		t.say("  %-11s %s\n", name, what)
		t.record("uses", "what", name, "which", what)
	}
	t.record("listening", "address", url)
}

// projects returns the names of the projects. Where there is none it makes one, and shows its
// key; where that could be shown to nobody, it says what is missing instead.
func (t *teller) projects(ctx context.Context, in *connect.Instance, systems []string, again, url string) ([]string, error) {
	names, err := in.ProjectNames(ctx)
	if err != nil || len(names) > 0 || !in.HasProjects() {
		return names, err
	}
	if t.json {
		t.log.Warn("there is no project, so no sender has a key: add one to projects, or with --project NAME=KEY")
		return nil, nil
	}
	made, err := in.FirstProject(ctx)
	if err != nil || made == nil {
		return names, err
	}
	t.say("  project     %s, made now. Its ingest key, shown this once:\n\n      %s\n\n", made.Name, made.Key.Reveal())
	t.say("  %s\n", keyUse(t.e.Table.Of(systems), url))
	t.say("  Lost it? tidemill %s --project %s=ANOTHER-KEY adds one.\n", again, made.Name)
	t.record("first project made; its key was shown on standard output", "project", made.Name)
	return []string{made.Name}, nil
}

func (t *teller) ready() {
	t.say("ready. Stop with Ctrl-C.\n")
	t.record("ready", "after", time.Since(t.begun).Round(time.Millisecond))
}

func (t *teller) stopping(why error) {
	t.say("stopping: running work is finished first. Ctrl-C again stops at once.\n")
	t.record("stopping", "why", why)
}

func (t *teller) stopped() error {
	t.record("stopped", "ran", time.Since(t.begun).Round(time.Millisecond))
	if t.json {
		return nil
	}
	_, err := fmt.Fprintln(t.e.Out, "stopped.")
	return err
}

// errLogged is an error that the log has already: nothing more is printed.
var errLogged = errors.New("it is in the log")

// inLog writes why a run ended as records, where all output is JSON.
func inLog(l config.Log, log *slog.Logger, err error) error {
	if _, usage := errors.AsType[command.UsageError](err); err == nil || l.Format != "json" || usage {
		return err
	}
	if wrong, ok := errors.AsType[command.WrongConfig](err); ok {
		for _, m := range command.MistakesOf(wrong) {
			log.Error("the configuration is wrong", "mistake", m.Error())
		}
	} else {
		log.Error("ended with an error", "error", err.Error())
	}
	return errLogged
}

// onHangup lets the process outlive its terminal. What do does at SIGHUP begins once it is given;
// of several signals meanwhile the last counts.
func onHangup(log *slog.Logger) (do func(func()), end func()) {
	hangups, given := make(chan os.Signal, 1), make(chan func(), 1)
	signal.Notify(hangups, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		reload := func() { log.Warn("SIGHUP: nothing is read again while this is starting") }
		for {
			select {
			case reload = <-given:
			case _, on := <-hangups:
				if !on {
					return
				}
				reload()
			}
		}
	}()
	return func(f func()) { given <- f }, func() {
		signal.Stop(hangups)
		close(hangups)
		<-done
	}
}

// keyUse says how senders show the key, by the first of the systems that has a way of its own.
func keyUse(systems system.Table, url string) string {
	for _, s := range systems {
		if s.KeyUse != "" {
			return fmt.Sprintf(s.KeyUse, url)
		}
	}
	return "Senders give it as X-API-Key."
}
