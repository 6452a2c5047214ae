package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type backupCmd struct {
	command.Remote
	File   string `arg:"" help:"Archive to write, which must not be there yet, or - for standard output."`
	Verify bool   `help:"Unpack the archive again, check it and audit it. Default: yes." default:"true" negatable:""`
}

// Help is shown by tidemill backup --help.
func (c *backupCmd) Help() string {
	return `The archive has the whole data folder as of one instant: every event that was acknowledged before the backup began is in it, and its books balance. It has every secret of the folder, so it is written for its owner alone. The file appears under its name when it is complete and checked.

The check unpacks the archive beside it (of standard output: in the folder for temporary files), which takes as much room as the data folder.

  tidemill backup tidemill-2026-01-31.tar.zst
  tidemill backup - | ssh vault 'cat > tidemill.tar.zst'

What is on servers (Redis, PostgreSQL, ClickHouse…) is not in it; the command names them, with what to do.`
}

// saved is what came of a backup or a restore.
type saved struct {
	File     string    `json:"file"`
	Folder   string    `json:"folder,omitempty"` // that was restored
	Aside    string    `json:"aside,omitempty"`  // where what was there before is now
	At       time.Time `json:"at"`               // of the backup
	Version  string    `json:"version"`          // that made it
	Systems  []string  `json:"systems"`
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`             // of the files
	Archive  int64     `json:"archive,omitempty"` // its bytes
	Verified bool      `json:"verified"`
	Balanced *bool     `json:"balanced,omitempty"` // left out: the books were not read
	LeftOut  []string  `json:"left_out,omitempty"`
	Servers  []string  `json:"servers,omitempty"`
	Seconds  float64   `json:"seconds"`
}

func (c *backupCmd) Run(ctx context.Context, e command.Env) error {
	if c.File == "-" && command.Terminal(e.Out) {
		return command.UsageError{Err: errors.New("an archive is not for a terminal: name a file, or pipe it into another command")}
	}
	if _, err := os.Lstat(c.File); err == nil && c.File != "-" {
		return fmt.Errorf("%s is there already: name another file", c.File)
	}
	cfg, err := c.Read(e, nil) // who asks an instance needs no sound one here
	if err != nil && c.Server == "" {
		return command.WrongConfig{Err: err}
	}
	v := &verifier{e: e, cfg: cfg, whole: c.Verify}
	began := time.Now()
	err = c.Ask(ctx, e, func(a *command.Client) error {
		from, err := api.MakeBackup.Body(ctx, &a.Client, &operation.None{})
		if err != nil {
			return err
		}
		defer from.Close()
		p := command.NewProgress(e, c.JSON, "MiB of the archive", -1)
		defer p.End()
		in := &counting{from: from, to: p}
		if c.File == "-" {
			err = v.through(ctx, in, command.AsBytes(e.Out))
		} else {
			err = c.write(ctx, in, v)
		}
		v.out.Archive = in.n
		return err
	})
	if err != nil {
		return fmt.Errorf("no backup was made: %w", err)
	}
	v.out.File, v.out.Seconds = c.File, time.Since(began).Seconds()
	to := e.Out
	if c.File == "-" {
		to = e.Err
	}
	if c.JSON {
		return errors.Join(command.PrintJSON(to, v.out), v.unbalanced())
	}
	_, _ = fmt.Fprintf(to, "Backed up %s, %s, into %s (%s) in %s.\n", command.Count(v.out.Files, "file", "files"), mib(v.out.Bytes), c.File, mib(v.out.Archive), took(v.out.Seconds))
	v.say(to)
	return v.unbalanced()
}

// write writes the archive under another name, has it read back, and gives it its name.
func (c *backupCmd) write(ctx context.Context, in io.Reader, v *verifier) (err error) {
	f, err := os.CreateTemp(filepath.Dir(c.File), filepath.Base(c.File)+".part-*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), removed(f.Name())) }()
	if _, err := io.Copy(f, in); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := v.read(ctx, f, filepath.Dir(c.File)); err != nil {
		return err
	}
	if err := os.Link(f.Name(), c.File); err == nil || errors.Is(err, fs.ErrExist) { // over nobody's file
		return err
	}
	return os.Rename(f.Name(), c.File) // the disk has no links
}

// removed removes a file that may have its final name by now.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// counting counts what is read, in MiB, for people.
type counting struct {
	from io.Reader
	to   *command.Progress
	n    int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	c.to.Set(int(c.n >> 20))
	return n, err
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func took(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

type restoreCmd struct {
	command.Settings
	File   string `arg:"" help:"Archive that tidemill backup has made, or - for standard input."`
	Force  bool   `help:"Move aside what is in the data folder."`
	Verify bool   `help:"Check the database and audit it before it is put in its place. Default: yes." default:"true" negatable:""`
	JSON   bool   `help:"Print one JSON object."`
}

// Help is shown by tidemill restore --help.
func (c *restoreCmd) Help() string {
	return `Restores into the data folder (--data), which must be empty, and in which no instance runs. Nothing is replaced before the archive is unpacked and checked; a restore that was killed leaves a folder that nothing starts on, until the restore is run again.

  tidemill restore tidemill-2026-01-31.tar.zst --data tidemill-data

--force moves what is there into a folder before-restore-TIME beside it; remove that when nothing of it is wanted any more.`
}

func (c *restoreCmd) Run(ctx context.Context, e command.Env) error {
	cfg, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	in := e.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	v := &verifier{e: e, cfg: cfg, whole: c.Verify, quiet: c.JSON}
	began := time.Now()
	if err := v.restore(ctx, in, c.Force); err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	v.out.File, v.out.Seconds = c.File, time.Since(began).Seconds()
	if c.JSON {
		return errors.Join(command.PrintJSON(e.Out, v.out), v.unbalanced())
	}
	_, _ = fmt.Fprintf(e.Out, "Restored %s, %s, of %s into %s in %s.\n", command.Count(v.out.Files, "file", "files"), mib(v.out.Bytes), v.out.At.Format(time.RFC3339), v.out.Folder, took(v.out.Seconds))
	if v.out.Aside != "" {
		_, _ = fmt.Fprintf(e.Out, "What was there is in %s.\n", v.out.Aside)
	}
	v.say(e.Out)
	return v.unbalanced()
}
