package sqliteperson

// steps are the tables. A released step is never edited.
//
// A distinct id is stored as text where it is plain text, which is friendly to readers,
// and as a blob where it holds NUL or is not UTF-8 (see key); text never equals a blob, so
// each id has exactly one stored form and compares byte by byte.
//
//   - person: distinct_id is the one that its id is derived from; properties are the
//     values as one JSON object, for readers by SQL; registers are what person.Registers
//     stores. Times are unix milliseconds.
//   - person_moved: the distinct ids that belong to another person than the derived one.
//     A row is never deleted, so that versions keep counting. That the others need no row
//     is what makes a new person cheap: one row at the end of a table, one entry in an index.
//   - person_distinct_id: both together, for readers.
//   - person_override: the outbox to the warehouse; AUTOINCREMENT never gives a number twice.
//   - person_kept_merge: merges that failed, the oldest first.
var steps = []string{`
CREATE TABLE person(
	id          BLOB PRIMARY KEY,
	project     BLOB NOT NULL,
	distinct_id,
	identified  INTEGER NOT NULL,
	created     INTEGER NOT NULL,
	updated     INTEGER NOT NULL,
	properties  TEXT NOT NULL DEFAULT '{}',
	registers   BLOB);
CREATE TABLE person_moved(
	project     BLOB NOT NULL,
	distinct_id NOT NULL,
	person      BLOB NOT NULL,
	version     INTEGER NOT NULL,
	PRIMARY KEY(project, distinct_id)) WITHOUT ROWID;
CREATE INDEX person_moved_person ON person_moved(person);
CREATE VIEW person_distinct_id(project, distinct_id, person, version) AS
	SELECT project, distinct_id, id, 0 FROM person WHERE distinct_id IS NOT NULL
	UNION ALL SELECT project, distinct_id, person, version FROM person_moved;
CREATE TABLE person_override(
	seq         INTEGER PRIMARY KEY AUTOINCREMENT,
	project     BLOB NOT NULL,
	distinct_id NOT NULL,
	person      BLOB NOT NULL,
	version     INTEGER NOT NULL);
CREATE TABLE person_kept_merge(
	seq         INTEGER PRIMARY KEY AUTOINCREMENT,
	project     BLOB NOT NULL,
	distinct_id NOT NULL,
	other       NOT NULL,
	event       BLOB NOT NULL,
	force       INTEGER NOT NULL,
	at          INTEGER NOT NULL,
	UNIQUE(project, distinct_id, other, event, force));
`}
