package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/backup"
	"github.com/tidemill/tidemill/internal/ownfile"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/api"
)

// verifier unpacks an archive and looks at what is in it.
type verifier struct {
	e     command.Env
	cfg   *config.Loaded
	whole bool // the database is checked and audited too
	quiet bool // no progress

	out    saved
	faults []string // of the books
}

// read unpacks and checks an archive in a folder of its own, which is removed.
func (v *verifier) read(ctx context.Context, in io.Reader, near string) (err error) {
	into, err := os.MkdirTemp(near, "tidemill-verify-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(into)) }()
	return v.unpack(ctx, in, into, nil)
}

// through passes an archive on while it is unpacked and checked.
func (v *verifier) through(ctx context.Context, in io.Reader, out io.Writer) error {
	ours, theirs := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := v.read(ctx, ours, "")
		_ = ours.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // nobody reads any more
		done <- err
	}()
	_, err := io.Copy(io.MultiWriter(out, theirs), in)
	_ = theirs.CloseWithError(err) // nil: the end
	if checked := <-done; checked != nil {
		return checked
	}
	return err
}

// unpack unpacks an archive into a folder, and checks what came out of it.
func (v *verifier) unpack(ctx context.Context, in io.Reader, into string, begin func(*backup.Manifest) error) error {
	m, err := backup.Read(ctx, in, into, begin)
	if err != nil {
		return err
	}
	o := &v.out
	o.At, o.Version, o.Systems, o.Files, o.Bytes, o.LeftOut, o.Servers = m.At, m.Version, m.Systems, len(m.Files), m.Bytes(), m.LeftOut, m.Servers
	if !v.whole {
		return nil
	}
	if err := v.check(ctx, into); err != nil {
		return err
	}
	o.Verified = true
	if len(m.Servers) > 0 {
		return nil // what the books are compared with is not in the archive
	}
	return v.audit(ctx, into, m.Systems)
}

// check looks at every page of the database, and at its indices.
func (v *verifier) check(ctx context.Context, folder string) error {
	db, err := sqlitedb.Open(ctx, system.DatabasePath(folder), sqlitedb.Options{Readers: 1})
	if err != nil {
		return err
	}
	result, err := db.CheckWhole(ctx)
	if err == nil && result != "ok" {
		err = fmt.Errorf("the database in the backup is damaged: %s", result)
	}
	return errors.Join(err, db.Close())
}

// audit reads the books of the systems that ran, of what was unpacked alone.
func (v *verifier) audit(ctx context.Context, folder string, systems []string) (err error) {
	cfg := *v.cfg
	cfg.Data = folder
	cfg.Redis.URL, cfg.Postgres.URL, cfg.ClickHouse.URL, cfg.Kafka.Brokers = "", "", "", ""
	a, err := command.OpenData(ctx, v.e, &cfg, systems)
	if err != nil {
		return fmt.Errorf("open the copy: %w", err)
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	got, err := api.GetAudit.Call(ctx, &a.Client, &api.AuditOf{})
	if err != nil {
		return fmt.Errorf("audit the copy: %w", err)
	}
	v.out.Balanced = &got.Balanced
	for _, raw := range got.Systems {
		var r api.Audit
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		for _, f := range r.Faults {
			v.faults = append(v.faults, r.System+": "+f)
		}
	}
	return nil
}

// restore makes the data folder of an archive.
func (v *verifier) restore(ctx context.Context, in io.Reader, force bool) (err error) {
	data := v.cfg.Data
	if err := ownfile.Folder(data); err != nil {
		return err
	}
	lock, err := sqlitedb.Lock(system.DatabasePath(data))
	if held, ok := errors.AsType[*sqlitedb.LockedError](err); ok {
		return fmt.Errorf("%s is in use by %s: stop it first, or name another folder with --data", data, held.Holder)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	there, err := backup.Data(data)
	if err != nil {
		return err
	}
	if len(there) > 0 && !force {
		return fmt.Errorf("there is something in %s already (%s): name another folder with --data, or move it aside with --force", data, strings.Join(there, ", "))
	}
	r, err := backup.Restore(data)
	if err != nil {
		return err
	}
	if err := v.unpack(ctx, in, r.Folder, v.begin(data)); err != nil {
		return errors.Join(err, r.Close())
	}
	v.out.Folder, _ = filepath.Abs(data)
	v.out.Aside, err = r.Put(time.Now())
	return err
}

// begin refuses an archive for which there is no room.
func (v *verifier) begin(data string) func(*backup.Manifest) error {
	return func(m *backup.Manifest) error {
		if free, err := system.FreeSpace(data); err == nil && free < m.Bytes() {
			return fmt.Errorf("%s has room for %s, and the backup needs %s", data, mib(free), mib(m.Bytes()))
		}
		if !v.quiet {
			_, _ = fmt.Fprintf(v.e.Err, "restoring %s, %s, of %s\n", command.Count(len(m.Files), "file", "files"), mib(m.Bytes()), m.At.Format(time.RFC3339))
		}
		return nil
	}
}

// say says what was found, and what is not in the archive.
func (v *verifier) say(to io.Writer) {
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(to, format+"\n", args...) }
	switch b := v.out.Balanced; {
	case !v.out.Verified:
		line("It was not checked (--no-verify).")
	case b == nil:
		line("Every page is sound. The books are compared with servers, which are not in it: run tidemill audit when they are restored too.")
	case *b:
		line("Every page is sound, and the books of the copy balance.")
	}
	for _, f := range v.faults {
		line("THE BOOKS DO NOT BALANCE: %s", f)
	}
	for _, name := range v.out.LeftOut {
		line("Left out, as it is no file: %s", name)
	}
	for _, s := range v.out.Servers {
		line("Not in it: %s", s)
	}
}

// unbalanced is the error of a copy whose books do not balance: those that it was made of do not either.
func (v *verifier) unbalanced() error {
	if b := v.out.Balanced; b != nil && !*b {
		return errUnbalanced
	}
	return nil
}
