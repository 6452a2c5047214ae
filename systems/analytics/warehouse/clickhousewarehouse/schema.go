package clickhousewarehouse

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
)

// names are the warehouse's names in the server, quoted.
type names struct {
	database, events, overrides, warnings, view, dictionary string
}

// The tables' plain names.
const (
	eventsTable    = "events"
	overridesTable = "person_distinct_id_overrides"
	warningsTable  = "ingestion_warnings"
	eventsView     = "events_resolved"
	dictionaryName = "person_overrides_dict"
)

func namesIn(database string) names {
	db := clickhousehttp.Name(database)
	in := func(name string) string { return db + "." + clickhousehttp.Name(name) }
	return names{db, in(eventsTable), in(overridesTable), in(warningsTable), in(eventsView), in(dictionaryName)}
}

// window is how many of its last parts a table knows by the tokens of their inserts. An insert
// makes one part in each of its partitions. A batch is tried again within seconds. At 20
// inserts a second of one month the window is the last eight minutes, or 160 inserts of all
// months that events may have by default. Each part costs the server a line of a small file.
const window = 10_000

// viewComment names the version of the view: another version replaces it.
const viewComment = "each event once, under the person it belongs to now (edition 1)"

// state is what exists already.
type state struct {
	database bool
	tables   map[string]table
	columns  map[string]bool // table.column
}

type table struct {
	engine, sorting, settings, comment string

	account  string         // a dictionary's account: "password", "collection x"; empty: none is given
	defaults map[string]int // the server's defaults of settings that settings does not name
}

// accountOf reads a dictionary's account out of its definition, without the password.
const accountOf = `multiIf(engine != 'Dictionary', '', match(create_table_query, '\\bPASSWORD '), 'password', match(create_table_query, '\\bNAME \''), concat('collection ', extract(create_table_query, '\\bNAME \'([^\']*)\'')), '')`

// state reads the server's system tables, so that nothing existing is created: then no right to
// create or alter is needed.
func (s *Store) state(ctx context.Context) (*state, error) {
	st := &state{tables: map[string]table{}, columns: map[string]bool{}}
	db := clickhousehttp.Param("database", s.conn.Database())
	rows, err := s.conn.Query(ctx, "SELECT name FROM system.databases WHERE name = {database:String}", db)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		st.database = rows.String() != ""
	}
	if err := rows.Err(); err != nil || !st.database {
		return st, err
	}
	defaults := map[string]int{}
	rows, err = s.conn.Query(ctx, "SELECT name, toInt64OrZero(value) FROM system.merge_tree_settings WHERE name LIKE '%replicated_deduplication_window' OR name = 'fsync_after_insert'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		name := rows.String()
		defaults[name] = int(rows.Int64())
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows, err = s.conn.Query(ctx, "SELECT name, engine, sorting_key, engine_full, comment, "+accountOf+" FROM system.tables WHERE database = {database:String}", db)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		name := rows.String()
		st.tables[name] = table{rows.String(), rows.String(), rows.String(), rows.String(), rows.String(), defaults}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows, err = s.conn.Query(ctx, "SELECT concat(table, '.', name) FROM system.columns WHERE database = {database:String}", db)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		st.columns[rows.String()] = true
	}
	return st, rows.Err()
}

// migrate makes what is missing. Every statement may run twice, and at the same time as
// another instance's.
func (s *Store) migrate(ctx context.Context, keepWarnings time.Duration, keep bool) error {
	st, err := s.state(ctx)
	if err != nil {
		return fmt.Errorf("read what is there: %w", err)
	}
	for _, statement := range s.missing(st, keepWarnings) {
		if err := s.conn.Exec(ctx, statement); err != nil {
			what, _, _ := strings.Cut(statement, "(")
			return fmt.Errorf("%s: %w", strings.TrimSpace(what), err)
		}
	}
	if events, ok := st.tables[eventsTable]; ok && keep {
		if err := s.keep(ctx, events); err != nil {
			return err
		}
	}
	d, ok := st.tables[dictionaryName]
	if s.o.NoDictionary || ok && (d.account != withPassword || s.noAccount() != "") {
		return nil
	}
	if !ok && s.noAccount() != "" { // nothing of ours reads it, and Inspect reports it missing
		return nil
	}
	err = s.conn.Exec(ctx, s.createDictionary(ok))
	if err != nil && tidemill.KindOf(err) != tidemill.Credentials {
		return fmt.Errorf("create the dictionary %s: %w", dictionaryName, err)
	}
	return nil
}

// withPassword is the account of a dictionary with a password in its definition, as in an
// existing deployment: anyone who may read the server's files or its tables knows it.
const withPassword = "password"

// noAccount says why a dictionary cannot be made without a password in its definition: its
// source is the server itself, read as a user with a password. Empty: it can.
func (s *Store) noAccount() string {
	if user, password := s.conn.Account(); s.o.Collection == "" && (user != "default" || !password.IsZero()) {
		return "its definition would hold the password"
	}
	return ""
}

// missing are the statements that bring tables and view to their required form.
func (s *Store) missing(st *state, keepWarnings time.Duration) (statements []string) {
	add := func(format string, args ...any) { statements = append(statements, fmt.Sprintf(format, args...)) }
	if !st.database {
		add("CREATE DATABASE IF NOT EXISTS %s", s.names.database)
	}
	columns := eventColumns()
	if events, ok := st.tables[eventsTable]; !ok {
		add("%s", s.createEvents(columns))
	} else {
		for _, c := range columns {
			if !st.columns[eventsTable+"."+c.name] {
				add("ALTER TABLE %s ADD COLUMN IF NOT EXISTS %s %s", s.names.events, c.name, c.definition)
			}
		}
		if events.engine == "ReplacingMergeTree" && events.setting("non_replicated_deduplication_window") == 0 {
			add("ALTER TABLE %s MODIFY SETTING non_replicated_deduplication_window = %d", s.names.events, window)
		}
	}
	if _, ok := st.tables[overridesTable]; !ok {
		add(`CREATE TABLE IF NOT EXISTS %s (project_id UUID, distinct_id String, person_id UUID, version UInt64)
ENGINE = ReplacingMergeTree(version) ORDER BY (project_id, distinct_id)%s`, s.names.overrides, s.with())
	}
	if _, ok := st.tables[warningsTable]; !ok {
		ttl := ""
		if keepWarnings > 0 {
			ttl = fmt.Sprintf("\nTTL timestamp + toIntervalSecond(%d)", int64(keepWarnings.Seconds()))
		}
		add(`CREATE TABLE IF NOT EXISTS %s (project_id UUID, type LowCardinality(String), details String, timestamp DateTime, stored_at DateTime64(6, 'UTC') DEFAULT timestamp)
ENGINE = MergeTree ORDER BY (project_id, timestamp)%s%s`, s.names.warnings, ttl, s.with(fmt.Sprintf("non_replicated_deduplication_window = %d", window)))
	} else if !st.columns[warningsTable+".stored_at"] {
		add("ALTER TABLE %s ADD COLUMN IF NOT EXISTS stored_at DateTime64(6, 'UTC') DEFAULT timestamp", s.names.warnings)
	}
	if st.tables[eventsView].comment != viewComment {
		add("%s", s.createView(columns))
	}
	return statements
}

// with makes the SETTINGS of a new table.
func (s *Store) with(settings ...string) string {
	if !s.o.NoSync {
		settings = append(settings, "fsync_after_insert = 1", "fsync_part_directory = 1")
	}
	if len(settings) == 0 {
		return ""
	}
	return "\nSETTINGS " + strings.Join(settings, ", ")
}

// createEvents makes the table of events. It has no projections: FINAL does not read them, and
// in a ReplacingMergeTree each merge would have to rebuild them
// (deduplicate_merge_projection_mode). Each month is a partition, but those before 2000 and
// from 2100 on share one: imports may name any year. The TTL bounds timestamps to the range of
// a DateTime. Otherwise an event of the year 2299 would count as one of 2163, and one of 1960
// would never go.
func (s *Store) createEvents(columns []column) string {
	var q strings.Builder
	fmt.Fprintf(&q, "CREATE TABLE IF NOT EXISTS %s (", s.names.events)
	for i, c := range columns {
		if i > 0 {
			q.WriteByte(',')
		}
		fmt.Fprintf(&q, "\n\t%s %s", c.name, c.definition)
	}
	q.WriteString(",\n\t" + findIndex + `)
ENGINE = ReplacingMergeTree(ingested_at)
PARTITION BY if(timestamp >= toDateTime64('2000-01-01 00:00:00', 3, 'UTC') AND timestamp < toDateTime64('2100-01-01 00:00:00', 3, 'UTC'), toYYYYMM(timestamp), 0)
ORDER BY (project_id, event_name, timestamp, event_id)`)
	if s.o.Keep > 0 {
		q.WriteString("\nTTL " + s.ttl())
	}
	q.WriteString(s.with(fmt.Sprintf("non_replicated_deduplication_window = %d", window)))
	return q.String()
}

// ttl is that of Options.Keep.
func (s *Store) ttl() string {
	return fmt.Sprintf("toDateTime(least(greatest(timestamp, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), toDateTime64('2100-01-01 00:00:00', 3, 'UTC')), 'UTC') + toIntervalSecond(%d)", int64(s.o.Keep.Seconds()))
}

// doesMore finds a TTL that does more than forget.
var doesMore = regexp.MustCompile(`(?i)\b(TO (DISK|VOLUME)|RECOMPRESS|GROUP BY|WHERE)\b`)

// keep gives the table of events the TTL of Options.Keep, if it has another. The server then removes
// what is older in the background.
func (s *Store) keep(ctx context.Context, events table) error {
	was := events.ttl()
	if was == s.ttl() {
		return nil
	}
	if doesMore.MatchString(was) {
		return fmt.Errorf("the table %s has the TTL %q, which does more than forget: change how long events are kept there by ALTER TABLE %[1]s MODIFY TTL, and leave the setting out", s.names.events, was)
	}
	if err := s.conn.Exec(ctx, "ALTER TABLE "+s.names.events+" MODIFY TTL "+s.ttl()); err != nil {
		return fmt.Errorf("change how long events are kept in %s: %w", s.names.events, err)
	}
	if s.was = was; was == "" {
		s.was = "none"
	}
	return nil
}

// ttl is a table's, as the server writes it; empty: it has none.
func (t *table) ttl() string {
	_, ttl, _ := strings.Cut(t.settings, " TTL ")
	ttl, _, _ = strings.Cut(ttl, " SETTINGS ")
	return ttl
}

// createDictionary makes the dictionary by which readers' own queries resolve persons. Its
// source is the server itself, read as the user of a named collection, or else as a user
// without a password.
func (s *Store) createDictionary(instead bool) string {
	create, account := "CREATE DICTIONARY IF NOT EXISTS", ""
	if instead {
		create = "CREATE OR REPLACE DICTIONARY"
	}
	if s.o.Collection != "" {
		account = "NAME " + clickhousehttp.Text(s.o.Collection) + " "
	}
	newest := fmt.Sprintf("SELECT project_id, distinct_id, argMax(person_id, version) AS person_id FROM %s GROUP BY project_id, distinct_id", s.names.overrides)
	return fmt.Sprintf(`%s %s (project_id UUID, distinct_id String, person_id UUID)
PRIMARY KEY project_id, distinct_id
SOURCE(CLICKHOUSE(%sQUERY %s))
LIFETIME(MIN 30 MAX 60)
LAYOUT(COMPLEX_KEY_HASHED())`, create, s.names.dictionary, account, clickhousehttp.Text(newest))
}

// createView makes the view for readers. Conditions on project, name and time reach the table,
// and one on the project the overrides too.
func (s *Store) createView(columns []column) string {
	var q strings.Builder
	fmt.Fprintf(&q, "CREATE OR REPLACE VIEW %s AS SELECT", s.names.view)
	for i, c := range columns {
		if i > 0 {
			q.WriteByte(',')
		}
		if c.name == "person_id" {
			q.WriteString("\n\tif(o.moved, o.person_id, e.person_id) AS person_id")
			continue
		}
		fmt.Fprintf(&q, "\n\te.%[1]s AS %[1]s", c.name)
	}
	fmt.Fprintf(&q, `
FROM %s AS e FINAL
LEFT JOIN (
	SELECT project_id, distinct_id, argMax(person_id, version) AS person_id, true AS moved
	FROM %s GROUP BY project_id, distinct_id
) AS o ON o.project_id = e.project_id AND o.distinct_id = e.distinct_id
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT %s`, s.names.events, s.names.overrides, clickhousehttp.Text(viewComment))
	return q.String()
}

// setting reads a setting from a table's definition, else the server's default.
func (t table) setting(name string) int {
	if m := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + ` = (\d+)`).FindStringSubmatch(t.settings); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n
		}
	}
	return t.defaults[name]
}
