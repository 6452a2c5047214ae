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
// output, never into the log; the link into the console to a terminal only.
type teller struct {
	e     command.Env
	log   *slog.Logger
	level *slog.LevelVar
	json  bool
	begun time.Time
}

// records is the log of what also people on a terminal have just been told: there it is left out.
func (t *teller) records() *slog.Logger {
	if t.json || !command.Terminal(t.e.Err) {
		return t.log
	}
	return slog.New(slog.DiscardHandler)
}

// toSomebody says whether what it says stands on a terminal, and nowhere else.
func (t *teller) toSomebody() bool { return !t.json && command.Terminal(t.e.Out) }

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
	// Logged first of all by `tidemill run`; left out on a terminal, which shows it otherwise.
	t.records().Info("starting", "version", t.e.Version, "go", runtime.Version(), "pid", os.Getpid(), "systems", strings.Join(systems, ", "), "configuration", file, "data", cfg.Data)
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
		// Logged at the start, for each part: which server or file it uses; left out on a terminal.
		t.records().Info("uses", "what", name, "which", what)
	}
	// Logged at the start, when the API and the ways in are open; left out on a terminal.
	t.records().Info("listening", "address", url)
}

// projects returns the names of the projects. Where there is none it makes one, and shows its
// key; where that could be shown to nobody, it says what is missing instead.
func (t *teller) projects(ctx context.Context, in *connect.Instance, systems []string, again, url string) ([]string, error) {
	names, err := in.ProjectNames(ctx)
	if err != nil || len(names) > 0 || !in.HasProjects() {
		return names, err
	}
	if t.json {
		// Logged at the start with a log in JSON, where no project is made and no key shown.
		// To do: add one to `projects`, or with --project NAME=KEY.
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
	// Logged at the first start without a project; left out on a terminal.
	t.records().Info("first project made; its key was shown on standard output", "project", made.Name)
	return []string{made.Name}, nil
}

func (t *teller) ready() {
	t.say("ready. Stop with Ctrl-C.\n")
	// Logged when everything runs and events are taken in; left out on a terminal.
	t.records().Info("ready", "took", time.Since(t.begun).Round(time.Millisecond))
}

func (t *teller) stopping(why error) {
	t.say("stopping: running work is finished first. Ctrl-C again stops at once.\n")
	// Logged when a signal or a failure ends the run; what runs is finished first; left out on a
	// terminal.
	t.records().Info("stopping", "why", why)
}

func (t *teller) stopped() error {
	// Logged last of all, when everything has ended in order; left out on a terminal.
	t.records().Info("stopped", "ran", time.Since(t.begun).Round(time.Millisecond))
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
			// Logged for each mistake in the configuration, if the log is JSON; else it is printed.
			// The process ends.
			// To do: correct what the error names; `tidemill config check` finds the same.
			log.Error("the configuration is wrong", "error", m.Error())
		}
	} else {
		// Logged when the process ends for an error, if the log is JSON; else it is printed.
		// To do: read the error, and start it again.
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
		reload := func() {
			// Logged when a SIGHUP comes before the start is over: nothing is read again.
			// To do: send it again, if the configuration was changed after the start began.
			log.Warn("SIGHUP: nothing is read again while this is starting")
		}
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
