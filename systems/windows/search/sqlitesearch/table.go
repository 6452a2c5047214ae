package sqlitesearch

import (
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/systems/windows/search"
)

// migrations of the tables that all families share. Released steps are never edited.
var migrations = []string{`
CREATE TABLE search_family(
	name TEXT PRIMARY KEY,
	fields TEXT NOT NULL,        -- that its tables were made for
	generation INTEGER NOT NULL, -- of its tables
	old INTEGER NOT NULL         -- generation whose documents move to it; 0: none
) WITHOUT ROWID;
CREATE TABLE search_day(
	family TEXT NOT NULL,
	day TEXT NOT NULL,
	made INTEGER NOT NULL, -- milliseconds
	PRIMARY KEY(family, day)
) WITHOUT ROWID;
`, `
ALTER TABLE search_day ADD COLUMN bytes INTEGER; -- of its documents; NULL: it is from before they were counted
`}

// table is the tables of one family in one generation, with their statements: a fixed number of
// texts, as each is prepared once and kept.
type table struct {
	schema  *search.Schema
	name    string
	numbers []int // fields that have a column: numbers and times
	texts   []int // fields whose words are indexed

	any, find, body, last, version     string
	insertDoc, insertBody, insertWords string
	deleteDoc, deleteBody, deleteWords string
	newest, oldest                     string
}

func tableOf(s *search.Schema, generation int64) *table {
	t := &table{schema: s, texts: s.Texts(), name: fmt.Sprintf("search_%s_%d", strings.ReplaceAll(s.Name, "-", "_"), generation)}
	for i, f := range s.Fields {
		switch f.Type {
		case search.Long, search.Integer, search.Short, search.Byte, search.Double, search.Date:
			t.numbers = append(t.numbers, i)
		}
	}
	n := t.name
	t.any = "SELECT count(*) FROM (SELECT 1 FROM " + n + "_doc LIMIT 1)"
	t.find = "SELECT id, version FROM " + n + "_doc WHERE day = ? AND key = ?"
	t.body = "SELECT body FROM " + n + "_body WHERE id = ?"
	t.last = "SELECT coalesce(max(id), 0) FROM " + n + "_doc WHERE id BETWEEN ? AND ?"
	t.version = "UPDATE " + n + "_doc SET version = ? WHERE id = ?"
	t.insertDoc = "INSERT INTO " + n + "_doc(id, day, key, version, at, tie" + t.columns(", n") + ") VALUES(?,?,?,?,?,?" + strings.Repeat(",?", len(t.numbers)) + ")"
	t.insertBody = "INSERT INTO " + n + "_body(id, body) VALUES(?,?)"
	t.insertWords = "INSERT INTO " + n + "_words(rowid, " + t.textColumns() + "terms) VALUES(?,?" + strings.Repeat(",?", len(t.texts)) + ")"
	t.deleteDoc = "DELETE FROM " + n + "_doc WHERE id = ?"
	t.deleteBody = "DELETE FROM " + n + "_body WHERE id = ?"
	t.deleteWords = "DELETE FROM " + n + "_words WHERE rowid = ?"
	t.newest = "SELECT coalesce(max(id), -1) FROM " + n + "_doc WHERE id <= ?"
	t.oldest = "SELECT coalesce(min(id), -1) FROM " + n + "_doc WHERE id >= ?"
	return t
}

func (t *table) columns(before string) string {
	var b strings.Builder
	for _, i := range t.numbers {
		fmt.Fprintf(&b, "%s%d", before, i)
	}
	return b.String()
}

func (t *table) textColumns() string {
	var b strings.Builder
	for _, i := range t.texts {
		fmt.Fprintf(&b, "f%d, ", i)
	}
	return b.String()
}

// create has the statements that make the tables.
func (t *table) create() []string {
	n := t.name
	return []string{
		"CREATE TABLE " + n + "_doc(id INTEGER PRIMARY KEY, day TEXT NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL, tie BLOB NOT NULL" + t.columns(", n") + ")",
		"CREATE UNIQUE INDEX " + n + "_key ON " + n + "_doc(day, key)",
		"CREATE INDEX " + n + "_at ON " + n + "_doc(at, tie)",
		"CREATE TABLE " + n + "_body(id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
		"CREATE VIRTUAL TABLE " + n + "_words USING fts5(" + t.textColumns() + "terms, content='', contentless_delete=1, tokenize='ascii')",
	}
}

// drop has the statements that remove them.
func (t *table) drop() []string {
	return []string{"DROP TABLE " + t.name + "_words", "DROP TABLE " + t.name + "_body", "DROP TABLE " + t.name + "_doc"}
}

// fields names what the tables depend on.
func fields(s *search.Schema) string {
	var b strings.Builder
	fmt.Fprintf(&b, "1 %s %q", s.Time, s.Order) // 1: the version of the tables' form
	for _, f := range s.Fields {
		fmt.Fprintf(&b, " %s:%s:%t", f.Name, f.Type, f.Stored)
	}
	return b.String()
}
