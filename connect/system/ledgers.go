package system

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemill/tidemill/internal/postgresdb"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/serverclock"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/table/postgrestable"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
)

// PostgresClock reads the clock of a PostgreSQL, until the host is closed. It decides leases that
// instances share, whose own clocks need not agree.
func (h *Host) PostgresClock(ctx context.Context, db *postgresdb.DB) (now func() time.Time, err error) {
	if c, ok := h.clocks[db]; ok {
		return c.Now, nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c, err := serverclock.Postgres(life, db)
	if err != nil {
		end()
		return nil, err
	}
	h.OnClose(func() error { end(); return nil })
	if h.clocks == nil {
		h.clocks = map[*postgresdb.DB]*serverclock.Clock{}
	}
	h.clocks[db] = c
	return c.Now, nil
}

// PostgresLedger is the ledger of a name in a PostgreSQL, by its clock.
func (h *Host) PostgresLedger(ctx context.Context, db *postgresdb.DB, name string) (*tableledger.Ledger[pgx.Tx], error) {
	now, err := h.PostgresClock(ctx, db)
	if err != nil {
		return nil, err
	}
	t, err := postgrestable.New(ctx, db, tableledger.Spec(name))
	if err != nil {
		return nil, err
	}
	return tableledger.New(t, tableledger.Options{Now: now}), nil
}

// SQLiteLedger is the ledger of a name in the embedded database.
func (h *Host) SQLiteLedger(ctx context.Context, db *sqlitedb.DB, name string) (*tableledger.Ledger[*sqlitedb.Tx], error) {
	t, err := sqlitetable.New(ctx, db, tableledger.Spec(name))
	if err != nil {
		return nil, err
	}
	return tableledger.New(t, tableledger.Options{Now: h.Now}), nil
}

// Ledger is a ledger that as many instances share as can, of what systems have asked for: in the
// common PostgreSQL, else the common Redis, else the embedded database, else any Redis; nil: nowhere.
func (h *Host) Ledger(ctx context.Context, name string) (ledger.Store, error) {
	if db, ok := h.servers["postgres "+string(h.Config.Postgres.URL)].(*postgresdb.DB); ok {
		return h.PostgresLedger(ctx, db, name)
	}
	c, shared := h.servers["redis "+string(h.Config.Redis.URL)].(redisconn.Client)
	if !shared && h.file != nil {
		return h.SQLiteLedger(ctx, h.file.DB, name)
	}
	for _, key := range slices.Sorted(maps.Keys(h.servers)) {
		if other, ok := h.servers[key].(redisconn.Client); ok && c == nil {
			c = other
		}
	}
	if c == nil {
		return nil, nil
	}
	return redisledger.New(c, redisledger.Options{Name: name})
}
