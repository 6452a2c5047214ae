package connect

import (
	"context"
	"path/filepath"
	"time"

	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/sqlitedeadletter"
	"github.com/tidemill/tidemill/state/definition/sqlitedefinition"
	"github.com/tidemill/tidemill/state/lock/sqlitelock"
	"github.com/tidemill/tidemill/state/person/sqliteperson"
	"github.com/tidemill/tidemill/state/project/sqliteproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/sqlitewarehouse"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/windows"
)

// DatabasePath is where the embedded database of a data folder lies.
func DatabasePath(data string) string { return filepath.Join(data, "tidemill.db") }

// sqlite opens the embedded database, and puts it behind every role.
func (i *Instance) sqlite(ctx context.Context, b *backends) (err error) {
	c, o := &i.config.Analytics, i.options
	if i.db, err = sqlitedb.Open(ctx, DatabasePath(i.config.Data), sqlitedb.Options{}); err != nil {
		return err
	}
	i.close = append(i.close, i.db.Close)
	newDatabaseMetrics(i.metrics, i.db)
	newFolderMetrics(i.metrics, i.config.Data)
	i.Uses = append(i.Uses, "database: SQLite, "+i.db.Path())
	capacity, letters := c.QueueMax, c.DeadMax // of each queue; the file has those of all systems
	if d, m, w := &i.config.Delivery, &i.config.CRM, &i.config.Windows; !i.runs(analytics.Name) {
		switch {
		case i.runs(delivery.Name):
			capacity, letters = d.QueueMax, d.DeadMax
		case i.runs(crm.Name):
			capacity, letters = m.QueueMax, m.DeadMax
		case i.runs(windows.Name):
			capacity, letters = w.QueueMax, w.DeadMax
		}
	}
	queues, err := sqlitequeue.New(ctx, i.db, sqlitequeue.Options{Capacity: capacity, Now: o.Now, Log: o.Log})
	if err != nil {
		return err
	}
	b.intake, b.damaged = queues, queues.Damaged
	b.queues = queues
	b.open = func(_ context.Context, name string) (stream, error) {
		return queues.Open(name, queue.Options{}).(stream), nil
	}
	b.waits = func(ctx context.Context, name string) (bool, error) {
		s, err := queues.Stats(ctx, name)
		return s.Waiting+s.Delayed+s.Leased > 0, err
	}
	b.loops = append(b.loops, flow.Loop{Name: "queue names", Every: time.Minute, Do: queues.Sweep})
	if b.persons, err = sqliteperson.New(ctx, i.db, sqliteperson.Options{}); err != nil {
		return err
	}
	if b.warehouse, err = sqlitewarehouse.New(ctx, i.db, sqlitewarehouse.Options{}); err != nil {
		return err
	}
	if b.definitions, err = sqlitedefinition.New(ctx, i.db); err != nil {
		return err
	}
	if b.letters, err = sqlitedeadletter.New(ctx, i.db, deadletter.Options{Max: letters, Trim: c.DeadTrim, Now: o.Now}); err != nil {
		return err
	}
	if b.locks, err = sqlitelock.New(ctx, i.db, sqlitelock.Options{Now: o.Now}); err != nil {
		return err
	}
	if b.projects, err = sqliteproject.New(ctx, i.db); err != nil {
		return err
	}
	file := *b
	i.file = &file
	return nil
}

// openFile is sqlite for who needs it whatever the servers are for: it is opened once.
func (i *Instance) openFile(ctx context.Context, b *backends) error {
	if i.file != nil {
		*b = *i.file
		return nil
	}
	if err := i.sqlite(ctx, b); err != nil {
		return err
	}
	i.loops = append(i.loops, b.loops...)
	return nil
}
