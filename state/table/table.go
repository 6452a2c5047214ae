// Package table is a keyed table of records, in transactions. A role stands on it: it says what
// its record is (Spec) and keeps its rules to itself; every backend of the table is then a
// backend of the role.
//
//	spec := table.Spec[Job]{
//		Name: "job",
//		Fields: []table.Field[Job]{
//			{Name: "key", At: func(j *Job) any { return &j.Key }},
//			{Name: "state", At: func(j *Job) any { return &j.State }},
//			{Name: "created", At: func(j *Job) any { return &j.Created }},
//		},
//		Orders: []table.Order{{Name: "oldest", By: []string{"state", "created"}}},
//	}
//
// A transaction has five verbs: Get, Put, Delete, Page and Next. Backends: memorytable,
// sqlitetable, postgrestable, redistable. Promises are cases of tabletest.
package table

import (
	"context"
	"time"
)

// MaxKey is the largest length in bytes of a key, and of each string or []byte in an order.
const MaxKey = 512

// MaxNext is the largest number of numbers that are taken at once.
const MaxNext = 10_000

// MaxOrder is the largest number of fields of an order.
const MaxOrder = 3

// Field is one column of a record.
type Field[T any] struct {
	// Name is the column's name: a-z, 0-9 and _, at most 32, a letter first.
	Name string
	// At returns a pointer to the field in a record:
	//
	//	*string, *[]byte  any bytes; an empty []byte is read back as nil
	//	*time.Time        whole milliseconds, rounded down, UTC; the zero time and the
	//	                  beginning of 1970 are the same, and are read back as the zero time;
	//	                  times before the year 1 and after 9999 are its first and last
	//	*uint64           any number; in an order at most math.MaxInt64
	//	*int, *uint8, *bool
	At func(*T) any
}

// Order is an order for pages: by its fields, then by the key. It costs an index.
type Order struct {
	Name string // written like the name of a field
	By   []string
}

// Counter counts records, by a name that each record has.
type Counter[T any] struct {
	Of   func(*T) string // the name that a record is counted under; empty: it is not counted
	From []string        // the fields that Of reads; it must read no others
}

// Spec says what a record is, and what can be asked of its table. While the table has data, a new
// program may add fields at the end of Fields, which are zero in the records that are there, and
// orders by fields whose values fit an order. Nothing else changes: a table that was made for
// another spec is refused. Programs with the spec before go on with the table, and keep the fields
// that they do not know.
type Spec[T any] struct {
	Name    string     // of the table, written like the name of a field
	Fields  []Field[T] // the first is the key, a *string of 1 to MaxKey bytes; then at least one more
	Orders  []Order
	Count   Counter[T] // without Of: nothing is counted
	Expires string     // a *time.Time that is the first field of an order; empty: no record expires
	Views   []View     // for other programs, which read the table by SQL
}

// View is a view of a table in a database: the columns of its records as other programs read
// them. It is made with the table, and anew when the table gains fields or orders. Nothing is written through it.
type View struct {
	Name     string // written like the name of a table; PostgreSQL's begins with tidemill_ too
	SQLite   string // its SELECT
	Postgres string // with @ before the names of tables of specs: @tidemill_job
}

// Cond is a condition on a field.
type Cond struct {
	Field string
	Op    string // =, <, <=, > or >=; of a bool only =, of a uint64 only = unless it is in an order
	Value any    // of the field's type: string, []byte, time.Time (in whole milliseconds, as the field), uint64, int, uint8 or bool
}

// Query says which records a page has.
type Query[T any] struct {
	By    string // the name of an order; empty: by key
	Back  bool   // from the last to the first
	After *T     // the page begins after the position of this record, whether it is still there or not: its key and the fields of the order count. Nil: at the beginning
	Where []Cond // all of them hold
	Most  int    // records at most; 1 or more
	// Only are the fields to read, in addition to the key; empty: all. For the next page, name
	// those of the order.
	Only []string
}

// Reader reads records. They are the caller's to change.
type Reader[T any] interface {
	// Get reads the records of keys; those that do not exist are missing in its answer. With
	// only it reads these fields and the key, and the others are zero.
	Get(keys []string, only ...string) (map[string]*T, error)
	// Page reads records in an order. Where the conditions are = on the first fields of the
	// order and any on the next, it finds the first by an index, and looks at no more records
	// than it returns, plus one.
	Page(q Query[T]) ([]*T, error)
}

// Each calls do with all records of a query, in pages of q.Most, as long as it returns true.
func Each[T any](from Reader[T], q Query[T], do func(*T) bool) error {
	for {
		page, err := from.Page(q)
		if err != nil {
			return err
		}
		for _, r := range page {
			if !do(r) {
				return nil
			}
		}
		if len(page) < q.Most {
			return nil
		}
		q.After = page[len(page)-1]
	}
}

// All reads all records of a query, in pages of q.Most.
func All[T any](from Reader[T], q Query[T]) (all []*T, err error) {
	err = Each(from, q, func(r *T) bool { all = append(all, r); return true })
	return all, err
}

// Tx is a transaction that changes records. It sees its own changes. It is used by one
// goroutine, until do returns.
type Tx[T any] interface {
	Reader[T]
	// Put writes whole records, new or not. With only it writes these fields of records that
	// exist, and ignores those that do not. Of a key given twice the last counts. It keeps
	// nothing of rows.
	Put(rows []*T, only ...string) error
	// Delete removes the records of keys, where they exist.
	Delete(keys []string) error
	// Next takes n numbers that follow each other, 1 to MaxNext, and returns the last. They are
	// larger than all that were taken before by transactions that were committed, in any
	// process; there may be gaps. Where numbers are to grow with the changes of a record, Get
	// it first, and do not delete it: one that is made again may get a smaller number.
	Next(n int) (uint64, error)
}

// Store is a table. Raw is the transaction of the database behind it, for changes of other
// tables that are to be committed together with its own.
//
// A method whose context has ended returns its error and does nothing.
type Store[T, Raw any] interface {
	// View calls do with a reader; all that it reads is of one moment, after each Update that
	// has returned. do may be called again.
	View(ctx context.Context, do func(Reader[T]) error) error
	// Update calls do in a transaction, and commits it if do returns nil; else nothing is
	// changed and do's error is returned. No other transaction changes a record that do has
	// read, or makes one of a key that do has found missing and then puts, before this one is
	// committed. Where two get in each other's way, do is called again: it changes nothing
	// but by its arguments. When Update returns nil, the change is durable.
	Update(ctx context.Context, do func(Tx[T], Raw) error) error
	// Count counts the records for which all conditions hold, up to most.
	Count(ctx context.Context, most int, where ...Cond) (int, error)
	// Counts are the numbers of records by the names of Spec.Count, without those of none. It
	// reads a number for each name, not the records.
	Counts(ctx context.Context) (map[string]int, error)
	// Sweep deletes records whose field Spec.Expires is after the beginning of 1970 and not
	// after now, the oldest first, at most most of them, and returns how many. Until then they
	// are records like all others.
	Sweep(ctx context.Context, now time.Time, most int) (int, error)
}
