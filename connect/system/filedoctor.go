package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemill/tidemill/internal/ownfile"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// Free space below which the doctor warns, and below which it fails.
const (
	lowSpace = 2 << 30
	noSpace  = 200 << 20
)

// Check looks at the database, its disk and its folder.
func (f *File) Check(ctx context.Context, folder string) []preflight.Finding {
	return []preflight.Finding{f.checkDatabase(ctx), checkSpace(folder), f.checkFolder(folder)}
}

func (f *File) checkDatabase(ctx context.Context) preflight.Finding {
	var version, mode string
	var sync int
	err := f.DB.Read(ctx, func(tx *sqlitedb.Tx) error {
		for q, to := range map[string]any{"SELECT sqlite_version()": &version, "PRAGMA journal_mode": &mode, "PRAGMA synchronous": &sync} {
			if err := tx.QueryRow(q).Scan(to); err != nil {
				return err
			}
		}
		return nil
	})
	result := ""
	if err == nil {
		result, err = f.DB.Check(ctx)
	}
	switch {
	case err != nil:
		return Finding("database", preflight.Fail, err.Error(), "is the disk healthy? restore the newest backup if not")
	case result != "ok":
		return Finding("database", preflight.Fail, "damaged: "+result, "stop, keep a copy of the file, restore the newest backup")
	}
	return Finding("database", preflight.OK, fmt.Sprintf("SQLite %s, journal %s, synchronous %d, every page readable", version, mode, sync), "")
}

func checkSpace(folder string) preflight.Finding {
	free, err := FreeSpace(folder)
	switch {
	case err != nil:
		return Finding("disk", preflight.Warn, "its free space is not known: "+err.Error(), "")
	case free < noSpace:
		return Finding("disk", preflight.Fail, fmt.Sprintf("%d MiB free", free>>20), "make room: when it is full, events are answered 503 until there is")
	case free < lowSpace:
		return Finding("disk", preflight.Warn, fmt.Sprintf("%d MiB free", free>>20), "make room soon")
	}
	return Finding("disk", preflight.OK, fmt.Sprintf("%d GiB free", free>>30), "")
}

func (f *File) checkFolder(folder string) preflight.Finding {
	if err := ownfile.Folder(folder); err != nil {
		return Finding("data folder", preflight.Fail, err.Error(), "until then `tidemill run` does not start there")
	}
	s, err := os.Stat(filepath.Dir(f.DB.Path()))
	if err == nil && s.Mode().Perm()&0o077 != 0 {
		return Finding("data folder", preflight.Warn, fmt.Sprintf("other users can open it (%v)", s.Mode().Perm()), "chmod 700 "+folder)
	}
	return Finding("data folder", preflight.OK, folder, "")
}

// CheckDamaged says how many waiting events were found damaged.
func CheckDamaged(ctx context.Context, damaged func(context.Context) (int, error)) preflight.Finding {
	switch n, err := damaged(ctx); {
	case err != nil:
		return Finding("waiting events", preflight.Warn, err.Error(), "")
	case n > 0:
		return Finding("waiting events", preflight.Fail, fmt.Sprintf("%d were found to be other bytes than were written; they are kept in the table queue_damaged", n),
			"check the disk and the memory of this machine; what their bytes still tell can be sent again")
	}
	return Finding("waiting events", preflight.OK, "none was ever found damaged", "")
}
