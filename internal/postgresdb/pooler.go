package postgresdb

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Behind a pooler each transaction has another session. So a session keeps nothing: settings are
// sent with the beginning of a transaction, in one message with it, or with a single statement, in
// one message with that.

// ofPooler are the settings that PgBouncer keeps for a client.
var ofPooler = []string{"application_name", "client_encoding", "datestyle", "timezone", "standard_conforming_strings"}

// refused reports whether a pooler refuses settings at the beginning of a connection.
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "08P01" && strings.Contains(e.Message, "unsupported startup parameter")
}

var errPooled = errors.New("sessions do not keep settings")

// try holds that a connection answers, and that its session has a setting of ours from its
// beginning: a pooler may ignore them.
func (d *DB) try(ctx context.Context, c *pgx.Conn) error {
	ours := false // nothing is prepared yet
	err := c.QueryRow(ctx, "SELECT source = 'client' FROM pg_settings WHERE name = 'plan_cache_mode'", pgx.QueryExecModeSimpleProtocol).Scan(&ours)
	if err == nil && !ours && d.local == "" {
		err = errPooled
	}
	return err
}

// leaveToTransactions takes the settings of sessions out of a configuration, and returns the
// statement that makes them those of a transaction.
func leaveToTransactions(c *pgx.ConnConfig) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.RuntimeParams)) {
		if slices.Contains(ofPooler, strings.ToLower(name)) || name == "options" {
			continue
		}
		all = append(all, "set_config("+literal(name)+","+literal(c.RuntimeParams[name])+",true)")
		delete(c.RuntimeParams, name)
	}
	if p, err := pgconn.ParseConfig(c.ConnString()); err != nil || p.RuntimeParams["default_query_exec_mode"] == "" {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // nothing is prepared; what statements look like is known
	}
	return "SELECT " + strings.Join(all, ",")
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// options are those of a transaction that begins with its settings.
func (d *DB) options(o pgx.TxOptions) pgx.TxOptions {
	if d.local == "" {
		return o
	}
	begin := "BEGIN"
	if o.IsoLevel != "" {
		begin += " ISOLATION LEVEL " + string(o.IsoLevel)
	}
	begin += " " + string(o.AccessMode) + " " + string(o.DeferrableMode)
	return pgx.TxOptions{BeginQuery: begin + ";" + d.local}
}

// batch is one that begins with the settings. It is one transaction.
func (d *DB) batch() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(d.local)
	return b
}

// Begin queues what begins a transaction.
func (d *DB) Begin(b *pgx.Batch, o pgx.TxOptions) {
	b.BeginTx(o)
	if d.local != "" {
		b.Queue(d.local)
	}
}
