package system

import (
	"context"
	"path/filepath"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/backup"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// DatabasePath is where the embedded database of a data folder lies.
func DatabasePath(data string) string { return filepath.Join(data, backup.Database) }

// File is the embedded database, with the roles in it that several systems have.
type File struct {
	DB          *sqlitedb.DB
	Queues      *sqlitequeue.Store
	DeadLetters deadletter.Store
	Projects    project.Store
}

// Bounds are how much the embedded database may hold.
type Bounds struct {
	Jobs        int  // in each queue
	DeadLetters int  // of each pipeline
	Trim        bool // the oldest dead letters make room for new ones
}

// File is the embedded database. All systems share it: it is opened when it is first asked for.
func (h *Host) File(ctx context.Context) (*File, error) {
	if h.file != nil {
		return h.file, nil
	}
	if err := backup.Usable(h.Config.Data); err != nil {
		return nil, err
	}
	db, err := sqlitedb.Open(ctx, DatabasePath(h.Config.Data), sqlitedb.Options{})
	if err != nil {
		return nil, err
	}
	h.OnClose(db.Close)
	if err := backup.Tidy(h.Config.Data); err != nil {
		return nil, err
	}
	newDatabaseMetrics(h.Metrics, db)
	newFolderMetrics(h.Metrics, h.Config.Data)
	h.Uses = append(h.Uses, "database: SQLite, "+db.Path())
	f := &File{DB: db}
	if f.Queues, err = sqlitequeue.New(ctx, db, sqlitequeue.Options{Capacity: h.Bounds.Jobs, Now: h.Now, Log: h.Log}); err != nil {
		return nil, err
	}
	letters, err := sqlitetable.New(ctx, db, tabledeadletter.Spec())
	if err != nil {
		return nil, err
	}
	of := deadletter.Options{Max: h.Bounds.DeadLetters, Trim: h.Bounds.Trim, Now: h.Now}
	if f.DeadLetters, err = tabledeadletter.New(ctx, letters, tabledeadletter.Options{Options: of}); err != nil {
		return nil, err
	}
	projects, err := sqlitetable.New(ctx, db, tableproject.Spec())
	if err != nil {
		return nil, err
	}
	f.Projects = tableproject.New(projects)
	h.Loops = append(h.Loops, flow.Loop{Name: "queue names", Every: sqlitequeue.SweepEvery, Do: f.Queues.Sweep})
	h.file = f
	return f, nil
}

// Opened is the embedded database; nil where no role is in it.
func (h *Host) Opened() *File { return h.file }

// Damaged counts what was found damaged in some queues.
func (f *File) Damaged(queues ...string) func(context.Context) (int, error) {
	return func(ctx context.Context) (sum int, err error) {
		for _, name := range queues {
			n, err := f.Queues.Damaged(ctx, name)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
}
