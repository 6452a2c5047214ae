package crm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/internal/sqlitedb"
)

// A limit does the least for events that are each begun and ended in a durable sync log: a
// thousand share each write. It knows no names, keeps no turns, redelivers nothing, resolves no
// profile, and keeps no books.

// together is how many events share the writes of a limit.
const together = 1000

// bulks brings events in calls of 1,000, by two callers.
func bulks(all []drawn, bring func([]drawn) error) error {
	return process.Each(2, slices.Collect(slices.Chunk(all, together)), bring)
}

func both(more func() (bool, error), n int, do func(int) error) error {
	var next atomic.Int64
	var wait sync.WaitGroup
	errs := make([]error, 2)
	for c := range errs {
		wait.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				var ok bool
				if ok, errs[c] = more(); !ok {
					return
				}
				errs[c] = do(i)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func playLimit(ctx context.Context, p *part) error {
	if p.Redis == "" {
		return limitOfFile(ctx, p)
	}
	return limitOfServers(ctx, p)
}

// limitOfFile is two commits a thousand events: one takes jobs and begins them in the log, the
// other ends them there and deletes the jobs. The file has the product's settings.
func limitOfFile(ctx context.Context, p *part) (err error) {
	db, err := sqlitedb.Open(ctx, filepath.Join(p.Folder, "limit.db"), sqlitedb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Migrate(ctx, "limit", []string{`CREATE TABLE limit_job(id INTEGER PRIMARY KEY, out INTEGER NOT NULL DEFAULT 0, payload BLOB NOT NULL);
		CREATE TABLE limit_log(key TEXT PRIMARY KEY, type TEXT, created INTEGER, state INTEGER NOT NULL, payload BLOB NOT NULL) WITHOUT ROWID`}); err != nil {
		return err
	}
	es := newEvents().take(p.Jobs)
	bring := func(part []drawn) error {
		args := make([]any, len(part))
		for i := range part {
			args[i] = part[i].raw
		}
		return db.Write(ctx, func(tx *sqlitedb.Tx) error {
			_, err := tx.Bulk("INSERT INTO limit_job(payload) VALUES ", "(?)", "", args)
			return err
		})
	}
	if p.What == "add" {
		return p.limitAdds(es, bring, func() (held int64, err error) {
			return held, db.Read(ctx, func(tx *sqlitedb.Tx) error { return tx.QueryRow("SELECT count(*) FROM limit_job").Scan(&held) })
		})
	}
	if err := bulks(es, bring); err != nil {
		return err
	}
	if err := p.Begin(); err != nil {
		return err
	}
	handled := process.NewSeen(p.Jobs)
	parts := slices.Collect(slices.Chunk(es, together))
	for i, part := range parts {
		from, to := i*together, i*together+len(part)
		err := db.Write(ctx, func(tx *sqlitedb.Tx) error {
			if _, err := tx.Exec("UPDATE limit_job SET out = 1 WHERE id > ? AND id <= ?", from, to); err != nil {
				return err
			}
			args := make([]any, 0, 4*len(part))
			for _, e := range part {
				args = append(args, e.tenant+"/"+e.id, e.typ, i, e.raw)
			}
			_, err := tx.Bulk("INSERT INTO limit_log(key, type, created, state, payload) VALUES ", "(?,?,?,1,?)", "", args)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range part {
			if _, err := handled.One(e.raw); err != nil {
				return err
			}
		}
		err = db.Write(ctx, func(tx *sqlitedb.Tx) error {
			args := make([]any, 0, len(part))
			for _, e := range part {
				args = append(args, e.tenant+"/"+e.id)
			}
			if _, err := tx.Bulk("UPDATE limit_log SET state = 3 WHERE key IN (", "?", ")", args); err != nil {
				return err
			}
			_, err := tx.Exec("DELETE FROM limit_job WHERE id > ? AND id <= ?", from, to)
			return err
		})
		if err != nil {
			return err
		}
	}
	p.End()
	r := report{Done: handled.N(), Twice: handled.Twice()}
	err = db.Read(ctx, func(tx *sqlitedb.Tx) error {
		return tx.QueryRow("SELECT (SELECT count(*) FROM limit_job), (SELECT count(*) FROM limit_log WHERE state = 3)").Scan(&r.Held, &r.Completed)
	})
	return errors.Join(err, p.Report(r))
}

func (p *part) limitAdds(es []drawn, bring func([]drawn) error, held func() (int64, error)) error {
	if err := p.Begin(); err != nil {
		return err
	}
	err := bulks(es, bring)
	p.End()
	r := report{Done: len(es)}
	if err == nil {
		r.Held, err = held()
	}
	return errors.Join(err, p.Report(r))
}

var (
	bulkAdd = rueidis.NewLuaScript(`redis.call('HSET', KEYS[1], unpack(ARGV))
local ids = {} for i = 1, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
redis.call('RPUSH', KEYS[2], unpack(ids)) return 1`)
	bulkLease = rueidis.NewLuaScript(`local ids = redis.call('LPOP', KEYS[2], ARGV[1]) if not ids then return {} end
local lease = {} for i = 1, #ids do lease[2 * i - 1] = ARGV[2] lease[2 * i] = ids[i] end
redis.call('ZADD', KEYS[3], unpack(lease))
return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}`)
	bulkEnd = rueidis.NewLuaScript(`redis.call('ZREM', KEYS[3], unpack(ARGV)) redis.call('HDEL', KEYS[1], unpack(ARGV)) return 1`)

	keys = []string{"{limit}jobs", "{limit}waiting", "{limit}out"}
)

const (
	limitTable = `CREATE TABLE limit_log(key bytea PRIMARY KEY, created timestamptz NOT NULL, state smallint NOT NULL, payload bytea)`
	limitBegin = `INSERT INTO limit_log(key, created, state, payload) SELECT k, now(), 1, p FROM unnest($1::bytea[], $2::bytea[]) v(k, p)
		ON CONFLICT (key) DO UPDATE SET state = 1 WHERE limit_log.state <> 3`
	limitEnd = `INSERT INTO limit_log(key, created, state) SELECT k, now(), 3 FROM unnest($1::bytea[]) v(k)
		ON CONFLICT (key) DO UPDATE SET state = 3`
)

// limitOfServers leases 1,000 jobs by one script, begins and ends them by an upsert each, and
// settles them by another script, two at a time.
func limitOfServers(ctx context.Context, p *part) error {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{p.Redis}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer client.Close()
	db, err := pgxpool.New(ctx, p.Postgres)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(ctx, limitTable); err != nil {
		return err
	}
	es := newEvents().take(p.Jobs)
	bring := func(part []drawn) error {
		args := make([]string, 0, 2*len(part))
		for _, e := range part {
			args = append(args, e.tenant+"/"+e.id, rueidis.BinaryString(e.raw))
		}
		return bulkAdd.Exec(ctx, client, keys, args).Error()
	}
	held := func() (int64, error) {
		waiting, err1 := client.Do(ctx, client.B().Llen().Key(keys[1]).Build()).AsInt64()
		out, err2 := client.Do(ctx, client.B().Zcard().Key(keys[2]).Build()).AsInt64()
		return waiting + out, errors.Join(err1, err2)
	}
	if p.What == "add" {
		return p.limitAdds(es, bring, held)
	}
	if err := bulks(es, bring); err != nil {
		return err
	}
	if err := p.Begin(); err != nil {
		return err
	}
	handled := process.NewSeen(p.Jobs)
	more := func() (bool, error) { return handled.N() < p.Jobs, nil }
	err = both(more, 2*p.Jobs, func(int) error { return limitOnce(ctx, client, db, handled) })
	p.End()
	if err != nil {
		return err
	}
	r := report{Done: handled.N(), Twice: handled.Twice()}
	r.Held, err = held()
	if err == nil {
		err = db.QueryRow(ctx, "SELECT count(*) FROM limit_log WHERE state = 3 AND payload IS NOT NULL").Scan(&r.Completed)
	}
	return errors.Join(err, p.Report(r))
}

// limitOnce processes a thousand jobs.
func limitOnce(ctx context.Context, client rueidis.Client, db *pgxpool.Pool, handled *process.Seen) error {
	got, err := bulkLease.Exec(ctx, client, keys, []string{strconv.Itoa(together), strconv.FormatInt(time.Now().UnixMilli(), 10)}).ToArray()
	if err != nil || len(got) == 0 {
		return err
	}
	ids, err1 := got[0].AsStrSlice()
	payloads, err2 := got[1].AsStrSlice()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	names, raws := make([][]byte, len(ids)), make([][]byte, len(ids))
	for i := range ids {
		names[i], raws[i] = []byte(ids[i]), []byte(payloads[i])
	}
	if _, err := db.Exec(ctx, limitBegin, names, raws); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, raw := range raws {
		if _, err := handled.One(raw); err != nil {
			return err
		}
	}
	if _, err := db.Exec(ctx, limitEnd, names); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return bulkEnd.Exec(ctx, client, keys, ids).Error()
}
