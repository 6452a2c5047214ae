// Command bench measures the product beside raw limits and its peers, in turns on one machine.
//
//	go run ./bench                      # lists what it measures
//	go run ./bench queue -run 'process' -rounds 5
//	go run ./bench compare BEFORE AFTER # two files that -out has kept
//	go run ./bench tables PAGE          # makes the tables of a page anew from bench/results
//
// Run it from the root of the repository, on Linux. bench/README.md says what each row means.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/tidemill/tidemill/bench/analytics"
	"github.com/tidemill/tidemill/bench/beside"
	"github.com/tidemill/tidemill/bench/bridge"
	"github.com/tidemill/tidemill/bench/console"
	"github.com/tidemill/tidemill/bench/crm"
	"github.com/tidemill/tidemill/bench/growth"
	"github.com/tidemill/tidemill/bench/ingest"
	"github.com/tidemill/tidemill/bench/lists"
	"github.com/tidemill/tidemill/bench/partners"
	"github.com/tidemill/tidemill/bench/queue"
	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/bench/scale"
	"github.com/tidemill/tidemill/bench/servers"
	"github.com/tidemill/tidemill/bench/sizes"
	"github.com/tidemill/tidemill/bench/windows"
)

var all = []rounds.Bench{analytics.Bench, servers.Bench, bridge.Bench, queue.Bench, ingest.Bench, beside.Bench, partners.Bench, crm.Bench, windows.Bench, lists.Bench, lists.Events, console.Bench, sizes.Bench, growth.Bench, scale.Bench}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that servers are ended
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, rounds.ErrWorse):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(out, "go run ./bench NAME [flags], from the root of the repository; NAME -h lists its flags.\n\n")
		for _, b := range all {
			fmt.Fprintf(out, "  %-10s %s\n", b.Name, b.About)
		}
		fmt.Fprint(out, "\n  compare BEFORE AFTER   what differs by more than five per cent between two files of -out; exit code 1 if something got worse\n  tables PAGE            writes the tables of a page anew, from the files in bench/results\n")
		return nil
	}
	name, args := args[0], args[1:]
	if name == "compare" {
		if len(args) != 2 {
			return errors.New("compare wants two files: that of before, and that of after")
		}
		return rounds.Compare(out, args[0], args[1])
	}
	if name == "tables" {
		if len(args) != 1 {
			return errors.New("tables wants a page, as docs/performance.md")
		}
		return tables(args[0])
	}
	i := slices.IndexFunc(all, func(b rounds.Bench) bool { return b.Name == name })
	switch {
	case i < 0:
		return fmt.Errorf("there is no benchmark %q: go run ./bench lists them", name)
	case len(args) > 0 && args[0] == "part":
		if all[i].Part == nil {
			return fmt.Errorf("%s has no parts", name)
		}
		return all[i].Part(ctx, args[1:])
	}
	return all[i].Run(ctx, args)
}

// tables makes those of a page anew.
func tables(page string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	made, err := rounds.Tables(old, "bench/results")
	if err != nil || bytes.Equal(made, old) {
		return err
	}
	return os.WriteFile(page, made, 0o644)
}
