// Command release makes what a release of Tidemill consists of, and publishes its image. It is run in
// the repository's root, by make:
//
//	release build -version 0.1.0 -commit c0ffee -date 2026-11-26T00:00:00Z -out dist [-targets linux/amd64,…] [-key FILE]
//	release image -version 0.1.0 -commit c0ffee -date 2026-11-26T00:00:00Z -out bin
//	release push dist/tidemill_0.1.0_image.tar REGISTRY/NAME:TAG…
//
// The same commit makes the same bytes, wherever and whenever it is built: times are those of the
// commit, and paths are not in it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: build, image or push")
	}
	if args[0] == "push" {
		if len(args) < 3 {
			return errors.New("push wants the image's file and at least one name")
		}
		return push(ctx, args[1], args[2:])
	}
	r, err := parse(args[1:])
	if err != nil {
		return err
	}
	switch args[0] {
	case "build":
		return r.build(ctx)
	case "image":
		return r.localImage(ctx)
	}
	return fmt.Errorf("%s: want build, image or push", args[0])
}

// release is what is being made.
type release struct {
	version, commit string
	date            time.Time // of the commit: of every file
	out             string    // the folder
	key             string    // that signs; empty: one that is made and thrown away
	targets         []target
}

// target is a system and a processor, by Go's names.
type target struct{ os, arch string }

const everything = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func parse(args []string) (*release, error) {
	r := &release{}
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	f.StringVar(&r.version, "version", "", "semantic version, without v")
	f.StringVar(&r.commit, "commit", "", "that is built")
	date := f.String("date", "", "of the commit, RFC 3339")
	f.StringVar(&r.out, "out", "dist", "folder that is written anew")
	f.StringVar(&r.key, "key", "", "SSH key that signs; empty: one that is made and thrown away")
	targets := f.String("targets", everything, "systems and processors")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339, *date)
	if err != nil {
		return nil, fmt.Errorf("-date: %w", err)
	}
	r.date = at.UTC()
	if r.version == "" || r.commit == "" || strings.HasPrefix(r.version, "v") {
		return nil, errors.New("-version (without v) and -commit are needed")
	}
	for t := range strings.SplitSeq(*targets, ",") {
		system, arch, ok := strings.Cut(t, "/")
		if !ok {
			return nil, fmt.Errorf("-targets: %q is not like linux/amd64", t)
		}
		r.targets = append(r.targets, target{system, arch})
	}
	return r, nil
}
