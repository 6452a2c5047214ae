package connect

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/ownfile"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
)

// Free space below which the doctor warns, and below which it fails.
const (
	lowSpace = 2 << 30
	noSpace  = 200 << 20
)

// doctor looks at everything that could cost events, and says what to do.
func (i *Instance) doctor(ctx context.Context) []preflight.Finding {
	var fs []preflight.Finding
	if i.db != nil {
		fs = append(fs, i.checkDatabase(ctx), i.checkSpace(), i.checkFolder())
	}
	for _, s := range i.systems {
		for _, e := range s.Pipelines {
			fs = append(fs, checkPipeline(e))
		}
	}
	for _, check := range i.checks {
		fs = append(fs, check(ctx)...)
	}
	return fs
}

func finding(check, verdict, detail, advice string) preflight.Finding {
	return preflight.Finding{Check: check, Verdict: verdict, Detail: detail, Advice: advice}
}

func (i *Instance) checkDatabase(ctx context.Context) preflight.Finding {
	var version, mode string
	var sync int
	err := i.db.Read(ctx, func(tx *sqlitedb.Tx) error {
		for q, to := range map[string]any{"SELECT sqlite_version()": &version, "PRAGMA journal_mode": &mode, "PRAGMA synchronous": &sync} {
			if err := tx.QueryRow(q).Scan(to); err != nil {
				return err
			}
		}
		return nil
	})
	result := ""
	if err == nil {
		result, err = i.db.Check(ctx)
	}
	switch {
	case err != nil:
		return finding("database", preflight.Fail, err.Error(), "is the disk healthy? restore the newest backup if not")
	case result != "ok":
		return finding("database", preflight.Fail, "damaged: "+result, "stop, keep a copy of the file, restore the newest backup")
	}
	return finding("database", preflight.OK, fmt.Sprintf("SQLite %s, journal %s, synchronous %d, every page readable", version, mode, sync), "")
}

func (i *Instance) checkSpace() preflight.Finding {
	free, err := freeSpace(i.config.Data)
	switch {
	case err != nil:
		return finding("disk", preflight.Warn, "its free space is not known: "+err.Error(), "")
	case free < noSpace:
		return finding("disk", preflight.Fail, fmt.Sprintf("%d MiB free", free>>20), "make room: when it is full, events are answered 503 until there is")
	case free < lowSpace:
		return finding("disk", preflight.Warn, fmt.Sprintf("%d MiB free", free>>20), "make room soon")
	}
	return finding("disk", preflight.OK, fmt.Sprintf("%d GiB free", free>>30), "")
}

func (i *Instance) checkFolder() preflight.Finding {
	if err := ownfile.Folder(i.config.Data); err != nil {
		return finding("data folder", preflight.Fail, err.Error(), "until then `tidemill run` does not start there")
	}
	s, err := os.Stat(filepath.Dir(i.db.Path()))
	if err == nil && s.Mode().Perm()&0o077 != 0 {
		return finding("data folder", preflight.Warn, fmt.Sprintf("other users can open it (%v)", s.Mode().Perm()), "chmod 700 "+i.config.Data)
	}
	return finding("data folder", preflight.OK, i.config.Data, "")
}

func checkPipeline(e *flow.Engine) preflight.Finding {
	s, name := e.Stats(), "pipeline "+e.Name()
	switch {
	case s.State == flow.Paused:
		return finding(name, preflight.Warn, "paused", "tidemill resume "+e.Name())
	case !s.Until.IsZero():
		return finding(name, preflight.Warn, "its breaker is open: "+s.Why, "mend the destination; it is tried again by itself")
	case s.Errors > 0:
		return finding(name, preflight.Warn, fmt.Sprintf("%d errors in a row, the last: %v", s.Errors, s.Last), "")
	case s.State == flow.Idle:
		return finding(name, preflight.OK, "not started: the data was opened to look at it", "")
	}
	return finding(name, preflight.OK, s.State.String(), "")
}

func checkDamaged(ctx context.Context, damaged func(context.Context) (int, error)) preflight.Finding {
	switch n, err := damaged(ctx); {
	case err != nil:
		return finding("waiting events", preflight.Warn, err.Error(), "")
	case n > 0:
		return finding("waiting events", preflight.Fail, fmt.Sprintf("%d were found to be other bytes than were written; they are kept in the table queue_damaged", n),
			"check the disk and the memory of this machine; what their bytes still tell can be sent again")
	}
	return finding("waiting events", preflight.OK, "none was ever found damaged", "")
}

func checkGeo(s enrich.GeoStatus) preflight.Finding {
	switch {
	case s.Source == "":
		return finding("countries", preflight.OK, "no database: countries stay empty", "")
	case s.Err != nil:
		return finding("countries", preflight.Warn, s.Err.Error(), "events go on, with the old database or without countries")
	case !s.Loaded():
		return finding("countries", preflight.Warn, s.Source+": not loaded yet", "")
	}
	return finding("countries", preflight.OK, s.Source, "")
}

func (i *Instance) checkProjects() preflight.Finding {
	for _, p := range i.config.Projects {
		if len(p.Key.Reveal()) < 16 {
			return finding("keys", preflight.Warn, fmt.Sprintf("the key of project %s has fewer than 16 characters", p.Name), "take a long random one where others can reach the address")
		}
	}
	host := i.config.Listen
	if config.Loopback(hostOf(host)) {
		return finding("keys", preflight.OK, "kept as hashes; the address is this machine's alone", "")
	}
	return finding("keys", preflight.OK, "kept as hashes; the API needs its key", "")
}
