// Command manpages writes the manual pages and the shells' completions of tidemill, which packages
// bring along:
//
//	go run ./scripts/manpages -version 0.1.0 -date 2026-11-26T00:00:00Z FOLDER
//
// FOLDER/man has a page a command, FOLDER/completions a script a shell. The same arguments make the
// same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/tidemill/tidemill/cli"
	"github.com/tidemill/tidemill/systems"
)

func main() {
	version := flag.String("version", "dev", "of tidemill")
	date := flag.String("date", "", "of the pages, RFC 3339")
	flag.Parse()
	if err := write(flag.Arg(0), *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

func write(folder, version, date string) error {
	if folder == "" {
		return errors.New("name the folder to write to")
	}
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	root, err := cli.Commands(systems.All())
	if err != nil {
		return err
	}
	if err := completions(root, filepath.Join(folder, "completions")); err != nil {
		return err
	}
	return manual(root, filepath.Join(folder, "man"), version, at.UTC())
}

func manual(root *cobra.Command, folder, version string, date time.Time) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	asMarkdown(root)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: "Tidemill " + version, Manual: "Tidemill"}, folder)
}

// asMarkdown rewrites texts for the library, which reads Markdown: what is laid out by blanks stays
// as it is, and an argument is no tag.
func asMarkdown(c *cobra.Command) {
	paragraphs := strings.Split(c.Long, "\n\n")
	for i, p := range paragraphs {
		if strings.Contains(p, "  ") {
			paragraphs[i] = "```\n" + p + "\n```"
		} else {
			paragraphs[i] = escape.Replace(p)
		}
	}
	c.Long, c.Use = strings.Join(paragraphs, "\n\n"), escape.Replace(c.Use)
	for _, child := range c.Commands() {
		asMarkdown(child)
	}
}

var escape = strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)

func completions(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(folder, name) }
	return errors.Join(
		root.GenBashCompletionFileV2(in("tidemill.bash"), true),
		root.GenZshCompletionFile(in("_tidemill")),
		root.GenFishCompletionFile(in("tidemill.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(in("tidemill.ps1")))
}
