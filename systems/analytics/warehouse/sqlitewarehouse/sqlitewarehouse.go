// Package sqlitewarehouse keeps events in the one SQLite file: the warehouse of an instance
// without ClickHouse. Readers with their own SQL query the view events, with the columns of the
// ClickHouse table and every event under the person it belongs to now. The tables beneath it
// are private to this package.
//
// Events are rows that are only appended. A set of their ids ensures that each is stored once. An index
// that is made behind the writer has them by project, name, distinct id and person, in the order of
// their times.
//
// Trim removes old events, by ranges of id (id grows with the time of storing). Their ids stay in the
// set: such an event is known, and not stored again.
package sqlitewarehouse

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/bell"
	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/internal/rowindex"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Options tune a Store; the zero value is ready to use.
type Options struct {
	// Rand seeds the ids once in the life of a file; nil means crypto/rand.
	Rand io.Reader
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	table int // as idset.Options.Table, and rowindex.Options.Rows
	hash  func(seed uint64) hasher
}

// Store is a warehouse in a SQLite file.
type Store struct {
	db    *sqlitedb.DB
	ids   *idset.Set
	index *rowindex.Index
	idOf  hasher
	owner []byte // this store's mark in the file
	trim  trimming

	came bell.Bell // rung when events are stored
}

var (
	_ warehouse.Store   = (*Store)(nil)
	_ warehouse.Expirer = (*Store)(nil)
	_ warehouse.Trimmer = (*Store)(nil)
	_ warehouse.Bounder = (*Store)(nil)
)

// New opens the warehouse in db and makes its tables. Only the newest Store of a file can
// insert: earlier ones get an error.
func New(ctx context.Context, db *sqlitedb.DB, o Options) (*Store, error) {
	if o.hash == nil {
		o.hash = seeded
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if err := db.Migrate(ctx, "warehouse", schema); err != nil {
		return nil, fmt.Errorf("open the warehouse: %w", err)
	}
	random := make([]byte, 24)
	if _, err := io.ReadFull(o.Rand, random); err != nil {
		return nil, fmt.Errorf("open the warehouse: take random bytes: %w", err)
	}
	s := &Store{db: db, owner: random[:16]}
	var seed int64
	err := db.Write(ctx, func(tx *sqlitedb.Tx) error {
		if _, err := tx.Exec("INSERT INTO warehouse_index(one,seed,owner) VALUES(1,?,?) ON CONFLICT(one) DO UPDATE SET owner=excluded.owner",
			int64(binary.LittleEndian.Uint64(random[16:])), s.owner); err != nil {
			return err
		}
		return tx.QueryRow("SELECT seed FROM warehouse_index").Scan(&seed)
	})
	if err != nil {
		return nil, fmt.Errorf("open the warehouse: take ownership: %w", err)
	}
	s.idOf = o.hash(uint64(seed))
	if s.ids, err = idset.Open(ctx, db, idset.Options{Name: idTables, Table: o.table, Now: o.Now}); err != nil {
		return nil, fmt.Errorf("open the warehouse: %w", err)
	}
	if err := s.fill(ctx); err != nil {
		return nil, fmt.Errorf("open the warehouse: %w", err)
	}
	if s.index, err = rowindex.Open(ctx, db, rowindex.Options{Name: indexTables, Rows: o.table, Read: readRows}); err != nil {
		return nil, fmt.Errorf("open the warehouse: %w", err)
	}
	return s, nil
}

// schema is what Migrate brings the file to. Released steps are never edited.
var schema = []string{`
CREATE TABLE warehouse_event(
	id INTEGER PRIMARY KEY,
	project BLOB NOT NULL,
	event_id BLOB NOT NULL,
	person BLOB NOT NULL,
	name TEXT NOT NULL,
	type TEXT NOT NULL,
	distinct_id TEXT NOT NULL,
	timestamp INTEGER NOT NULL,   -- milliseconds
	ingested_at INTEGER NOT NULL, -- milliseconds
	origin INTEGER NOT NULL,
	context TEXT,                 -- JSON object of the other columns that are not empty
	properties BLOB,              -- JSON as received; NULL is {}
	user_properties BLOB
);
CREATE TABLE warehouse_key(hash INTEGER NOT NULL, id INTEGER NOT NULL, PRIMARY KEY(hash, id)) WITHOUT ROWID;
CREATE TABLE warehouse_index(
	one INTEGER PRIMARY KEY CHECK(one = 1),
	seed INTEGER NOT NULL,
	upto INTEGER NOT NULL, -- all events up to this id are in warehouse_key
	owner BLOB NOT NULL    -- the Store that may insert
);
CREATE TABLE warehouse_count(project BLOB PRIMARY KEY, events INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE warehouse_override(
	project BLOB NOT NULL,
	distinct_id TEXT NOT NULL,
	person BLOB NOT NULL,
	version INTEGER NOT NULL,
	PRIMARY KEY(project, distinct_id)
) WITHOUT ROWID;
CREATE TABLE warehouse_warning(
	id INTEGER PRIMARY KEY,
	project BLOB NOT NULL,
	type TEXT NOT NULL,
	event TEXT NOT NULL,
	distinct_id TEXT NOT NULL,
	reason TEXT NOT NULL,
	at INTEGER NOT NULL -- milliseconds
);
CREATE INDEX warehouse_warning_project ON warehouse_warning(project, at);
CREATE INDEX warehouse_warning_at ON warehouse_warning(at);
CREATE VIEW events AS SELECT
	` + uuidText("e.event_id") + ` AS event_id,
	` + uuidText("e.project") + ` AS project_id,
	` + uuidText("coalesce(o.person, e.person)") + ` AS person_id,
	e.name AS event_name,
	e.type AS event_type,
	e.distinct_id AS distinct_id,
	coalesce(e.context->>'anonymous_id', '') AS anonymous_id,
	coalesce(e.context->>'user_id', '') AS user_id,
	coalesce(e.context->>'session_id', '') AS session_id,
	coalesce(e.context->>'url', '') AS url,
	coalesce(e.context->>'referrer', '') AS referrer,
	coalesce(e.context->>'page_title', '') AS page_title,
	coalesce(e.context->>'page_path', '') AS page_path,
	coalesce(e.context->>'device_type', '') AS device_type,
	coalesce(e.context->>'browser', '') AS browser,
	coalesce(e.context->>'browser_version', '') AS browser_version,
	coalesce(e.context->>'os', '') AS os,
	coalesce(e.context->>'os_version', '') AS os_version,
	coalesce(e.context->>'screen_width', 0) AS screen_width,
	coalesce(e.context->>'screen_height', 0) AS screen_height,
	coalesce(e.context->>'country', '') AS country,
	coalesce(e.context->>'region', '') AS region,
	coalesce(e.context->>'city', '') AS city,
	coalesce(e.context->>'language', '') AS language,
	coalesce(e.context->>'timezone', '') AS timezone,
	coalesce(e.context->>'sdk_name', '') AS sdk_name,
	coalesce(e.context->>'sdk_version', '') AS sdk_version,
	coalesce(e.context->>'batch_id', '') AS batch_id,
	coalesce(e.context->>'ip', '') AS ip,
	coalesce(e.context->>'user_agent', '') AS user_agent,
	coalesce(CAST(e.properties AS TEXT), '{}') AS properties,
	coalesce(CAST(e.user_properties AS TEXT), '{}') AS user_properties,
	` + timeText("e.timestamp") + ` AS timestamp,
	` + timeText("e.ingested_at") + ` AS ingested_at
FROM warehouse_event e
LEFT JOIN warehouse_override o ON o.project = e.project AND o.distinct_id = e.distinct_id;
CREATE VIEW ingestion_warnings AS SELECT
	` + uuidText("project") + ` AS project_id,
	type,
	json_object('event_name', event, 'distinct_id', distinct_id, 'reason', reason) AS details,
	` + timeText("at") + ` AS timestamp
FROM warehouse_warning;
`, idset.Schema(idTables) + `
DROP TABLE warehouse_key;
ALTER TABLE warehouse_index DROP COLUMN upto;
ALTER TABLE warehouse_index ADD COLUMN unread INTEGER NOT NULL DEFAULT 0; -- events up to this id are not in the set yet
UPDATE warehouse_index SET unread = (SELECT coalesce(max(id), 0) FROM warehouse_event);
`, `
ALTER TABLE warehouse_count ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;   -- of events
ALTER TABLE warehouse_count ADD COLUMN removed INTEGER NOT NULL DEFAULT 0; -- events, by Trim
UPDATE warehouse_count SET bytes = (SELECT coalesce(sum(` + octets + `), 0) FROM warehouse_event e WHERE e.project = warehouse_count.project);
`, rowindex.Schema(indexTables) + `
CREATE INDEX warehouse_override_person ON warehouse_override(project, person);
`}

// uuidText writes a column of 16 bytes as people write a UUID.
func uuidText(column string) string {
	return fmt.Sprintf("lower(printf('%%s-%%s-%%s-%%s-%%s', substr(hex(%[1]s),1,8), substr(hex(%[1]s),9,4), substr(hex(%[1]s),13,4), substr(hex(%[1]s),17,4), substr(hex(%[1]s),21)))", column)
}

// timeText writes a column of milliseconds as ClickHouse shows a DateTime64(3), also
// before 1970, where SQL's division rounds the other way.
func timeText(column string) string {
	const milli = "((%[1]s %% 1000 + 1000) %% 1000)"
	return fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%S', (%[1]s - "+milli+") / 1000, 'unixepoch') || printf('.%%03d', "+milli+")", column)
}

// uuidOf reads a column of 16 bytes.
func uuidOf(b []byte) (id uuid.UUID) {
	copy(id[:], b)
	return id
}
