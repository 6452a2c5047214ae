// Command apidiff compares the description of the API with that of the last release, and fails with a
// list of what clients of that release would notice: the API only grows. It is run in a repository, by
// make lint:
//
//	go run ./internal/apidiff [-description serve/api/openapi.json]
//
// The last release is the newest tag vX.Y.Z, by its version, before the commit that is checked
// out. Where there is none, nothing is compared. An operation may be missing once the day has
// passed until which the last release promised it, in x-sunset.
//
// oasdiff 1.37 does most of this, and reads OpenAPI 3.1. Of changes that were planted in our description
// it did not see that a body of application/merge-patch+json became one of application/json, knows
// nothing of x-role, took a component with another name, which no client sees, for an alternative that is
// new, and gave one line for each of 163 operations and answers where one shared component broke. It
// brings thirty modules; the schemas of our description have a dozen keywords.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	path := flag.String("description", "serve/api/openapi.json", "the `FILE`, in the repository that it is in")
	flag.Parse()
	if err := compare(os.Stdout, ".", *path, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(1)
	}
}

// compare compares the description in the repository at dir with that of its last release.
func compare(out io.Writer, dir, path string, now time.Time) error {
	tag, err := lastRelease(dir)
	if err != nil {
		return err
	}
	if tag == "" {
		why := "there is no release yet"
		if shallow, err := git(dir, "rev-parse", "--is-shallow-repository"); err == nil && shallow == "true" {
			why = "no release is known in this clone, which is shallow"
		}
		_, err := fmt.Fprintf(out, "apidiff: %s: the API was compared with nothing\n", why)
		return err
	}
	if has, err := git(dir, "ls-tree", "--name-only", tag, "--", path); err != nil || has == "" {
		if err == nil {
			_, err = fmt.Fprintf(out, "apidiff: %s has no %s: the API was compared with nothing\n", tag, path)
		}
		return err
	}
	old, err := released(dir, tag, path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return err
	}
	later, err := read(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if all := breaks(old, later, now); len(all) > 0 {
		return fmt.Errorf("clients of %s notice %d changes:\n  %s\nThe API only grows: let what there was be as it was, and add to it. What has to go is declared GoingAway first, six months before", tag, len(all), strings.Join(all, "\n  "))
	}
	return nil
}

// released is the description of a release.
func released(dir, tag, path string) (release, error) {
	text, err := git(dir, "show", tag+":"+path)
	if err != nil {
		return release{}, err
	}
	doc, err := read([]byte(text))
	if err != nil {
		return release{}, fmt.Errorf("%s of %s: %w", path, tag, err)
	}
	made, err := git(dir, "log", "-1", "--format=%ct", tag)
	if err != nil {
		return release{}, err
	}
	seconds, err := strconv.ParseInt(made, 10, 64)
	return release{doc, time.Unix(seconds, 0).UTC()}, err
}

var versionTag = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)$`)

// lastRelease is its tag; empty: there is none.
func lastRelease(dir string) (string, error) {
	text, err := git(dir, "tag", "--merged", "HEAD")
	if err != nil {
		return "", err
	}
	var last string
	var newest []int
	for tag := range strings.Lines(text) {
		tag = strings.TrimSpace(tag)
		parts := versionTag.FindStringSubmatch(tag)
		if parts == nil {
			continue
		}
		var version []int
		for _, p := range parts[1:] {
			n, err := strconv.Atoi(p)
			if err != nil {
				return "", fmt.Errorf("the tag %s: %w", tag, err)
			}
			version = append(version, n)
		}
		if last == "" || slices.Compare(version, newest) > 0 {
			last, newest = tag, version
		}
	}
	return last, nil
}

// git is what a command of git prints.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, e.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
