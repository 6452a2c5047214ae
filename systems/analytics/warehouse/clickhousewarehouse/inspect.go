package clickhousewarehouse

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/internal/preflight"
)

// Inspect checks the server and the tables: whether events are stored once, whether a repeated
// batch is recognised, whether acknowledged data is on disk, and whether the user may write.
func (s *Store) Inspect(ctx context.Context) []preflight.Finding {
	found := clickhousehttp.Inspect(ctx, s.conn)
	st, err := s.state(ctx)
	if err != nil {
		return append(found, preflight.Finding{Check: "clickhouse: tables", Verdict: preflight.Warn, Detail: fmt.Sprintf("cannot be read: %v", err),
			Advice: "let the user read system.tables and system.columns"})
	}
	found = append(found, st.tables[eventsTable].inspect()...)
	if !s.o.NoDictionary {
		found = append(found, s.inspectDictionary(st)...)
	}
	for _, table := range []string{eventsTable, overridesTable, warningsTable} {
		found = append(found, s.rights(ctx, table))
	}
	return found
}

// inspectDictionary checks the dictionary; it finds nothing if all is right.
func (s *Store) inspectDictionary(st *state) []preflight.Finding {
	f := preflight.Finding{Check: "clickhouse: dictionary of persons", Verdict: preflight.Warn}
	collection := "CREATE NAMED COLLECTION tidemill AS user = '…', password = '…', of a user that may read " + overridesTable + "; then set clickhouse.collection"
	d, ok := st.tables[dictionaryName]
	switch {
	case ok && d.account == withPassword:
		f.Detail, f.Advice = dictionaryName+" has a password in its definition", collection+", start again, and change the password"
	case ok:
		return nil
	case s.noAccount() != "":
		f.Detail, f.Advice = "there is no "+dictionaryName+": "+s.noAccount(), "only for readers that use it: "+collection+", and start again"
	default:
		f.Detail = "there is no " + dictionaryName
		f.Advice = "readers that use it find none: GRANT CREATE DICTIONARY, CLICKHOUSE to the user, or make it by hand, and start again"
	}
	return []preflight.Finding{f}
}

// inspect checks the table of events.
func (t table) inspect() []preflight.Finding {
	engine := preflight.Finding{Check: "clickhouse: engine of events", Verdict: preflight.OK, Detail: t.engine}
	order := preflight.Finding{Check: "clickhouse: order of events", Verdict: preflight.OK, Detail: t.sorting}
	if t.engine == "" {
		engine.Verdict, engine.Detail, engine.Advice = preflight.Fail, "there is no such table", "start once with a user that may create tables"
		return []preflight.Finding{engine}
	}
	if !strings.HasSuffix(t.engine, "ReplacingMergeTree") || !strings.Contains(t.settings, "MergeTree(") || !strings.Contains(t.settings, "ingested_at)") {
		engine.Verdict, engine.Detail = preflight.Fail, firstLine(t.settings)
		engine.Advice = "events are there once only in a ReplacingMergeTree(ingested_at); copy them into one"
	}
	const want = "project_id, event_name, timestamp, event_id"
	if t.sorting != want {
		order.Verdict, order.Advice = preflight.Fail, "rows with one key replace each other: it has to be ("+want+"), or other events are lost or repeated ones stay"
	}
	return []preflight.Finding{engine, order, t.dedup(), t.sync()}
}

func (t table) dedup() preflight.Finding {
	name := "non_replicated_deduplication_window"
	if strings.HasPrefix(t.engine, "Replicated") {
		name = "replicated_deduplication_window"
	}
	n := t.setting(name)
	f := preflight.Finding{Check: "clickhouse: deduplication of events", Verdict: preflight.OK, Detail: fmt.Sprintf("%s = %d", name, n)}
	if n < 100 {
		f.Verdict = preflight.Warn
		f.Advice = fmt.Sprintf("a batch whose answer was lost is stored twice until parts are merged (FINAL shows each event once): ALTER TABLE %s MODIFY SETTING %s = %d", eventsTable, name, window)
	}
	return f
}

func (t table) sync() preflight.Finding {
	f := preflight.Finding{Check: "clickhouse: events are on disk when they are acknowledged", Verdict: preflight.OK}
	f.Detail = fmt.Sprintf("fsync_after_insert = %d", t.setting("fsync_after_insert"))
	if !strings.HasPrefix(t.engine, "Replicated") && t.setting("fsync_after_insert") == 0 {
		f.Verdict = preflight.Warn
		f.Advice = "a server that loses power loses its last half minute: ALTER TABLE " + eventsTable + " MODIFY SETTING fsync_after_insert = 1, fsync_part_directory = 1"
	}
	return f
}

// rights checks whether the user may insert into a table and read it.
func (s *Store) rights(ctx context.Context, name string) preflight.Finding {
	f := preflight.Finding{Check: "clickhouse: rights on " + name, Verdict: preflight.OK, Detail: "insert and select"}
	table := namesIn(s.conn.Database()).database + "." + clickhousehttp.Name(name)
	for _, right := range []string{"INSERT", "SELECT"} {
		rows, err := s.conn.Query(ctx, "CHECK GRANT "+right+" ON "+table)
		if clickhousehttp.Code(err) == syntaxError { // before 24.11
			f.Detail = "not asked: the server knows no CHECK GRANT"
			return f
		}
		granted := false
		if err == nil {
			granted = rows.Next() && rows.UInt8() == 1
			rows.Close()
			err = rows.Err()
		}
		switch {
		case err != nil:
			f.Verdict, f.Detail = preflight.Warn, fmt.Sprintf("cannot be read: %v", err)
			return f
		case !granted:
			f.Verdict, f.Detail, f.Advice = preflight.Fail, "the user may not "+strings.ToLower(right), "GRANT INSERT, SELECT ON "+table
			return f
		}
	}
	return f
}

const syntaxError = 62

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s[:min(len(s), 120)]
}
