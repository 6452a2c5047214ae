//go:build !embedded

package system

import (
	"context"
	"maps"
	"slices"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/notice/postgresnotice"
	"github.com/tidemill/tidemill/state/notice/redisnotice"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/redistable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// shared is where a role is that is of no single system: one of these, or none.
type shared struct {
	postgres *postgresdb.DB
	redis    redisconn.Client
	file     *sqlitedb.DB
}

// shared is what as many instances share as can, of what systems have asked for: the common
// PostgreSQL, else the common Redis, else the embedded database, else any Redis.
func (h *Host) shared() (at shared) {
	if db, ok := h.servers["postgres "+string(h.Config.Postgres.URL)].(*postgresdb.DB); ok {
		return shared{postgres: db}
	}
	if c, ok := h.servers["redis "+string(h.Config.Redis.URL)].(redisconn.Client); ok {
		return shared{redis: c}
	}
	if h.file != nil {
		return shared{file: h.file.DB}
	}
	for _, key := range slices.Sorted(maps.Keys(h.servers)) {
		if c, ok := h.servers[key].(redisconn.Client); ok {
			return shared{redis: c}
		}
	}
	return at
}

// Ledger is a ledger that as many instances share as can; nil: nothing keeps one.
func (h *Host) Ledger(ctx context.Context, name string) (ledger.Store, error) {
	switch at := h.shared(); {
	case at.postgres != nil:
		return postgresledger.New(ctx, at.postgres, postgresledger.Options{Name: name})
	case at.redis != nil:
		return redisledger.New(at.redis, redisledger.Options{Name: name})
	case at.file != nil:
		return h.SQLiteLedger(ctx, at.file, name)
	}
	return nil, nil
}

// sharedTable is a table that as many instances share as can; nil: nothing keeps one.
func sharedTable[T any](ctx context.Context, h *Host, spec table.Spec[T]) (table.Store[T, any], error) {
	switch at := h.shared(); {
	case at.postgres != nil:
		return plainly(postgrestable.New(ctx, at.postgres, spec))
	case at.redis != nil:
		return plainly(redistable.New(ctx, at.redis, spec, redistable.Options{}))
	case at.file != nil:
		return plainly(sqlitetable.New(ctx, at.file, spec))
	}
	return nil, nil
}

// sharedNotices tell those who share a table that something in it has changed.
func sharedNotices(h *Host, name string) (notice.Notices, error) {
	switch at := h.shared(); {
	case at.postgres != nil:
		return postgresnotice.New(at.postgres, name)
	case at.redis != nil:
		return redisnotice.New(at.redis, "{table:"+name+"}")
	}
	return &notice.Signal{}, nil // the embedded database is of this process alone
}
