// Package rules is what the backends of the person role share: how changes are folded into
// persons, how persons are merged, and how properties are stored. A backend reads the rows that a
// batch touches, lets Fold and Unite work on them, and writes back what they have set, all in one
// transaction.
package rules

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
)

// Record is a person as it is stored, without its distinct ids.
type Record struct {
	ID, Project  uuid.UUID
	Identified   bool
	CreatedMilli int64 // unix milliseconds of its earliest event
	UpdatedMilli int64 // unix milliseconds of its latest event, floored to the hour
	Properties   Registers
}

// Link says which person a distinct id belongs to. It outlives every merge, so that
// Version, which grows by one with each move, never starts again. 0: the first person of
// the distinct id.
type Link struct {
	person.Ref
	Person  uuid.UUID
	Version uint64
}

// Rows are the stored rows as the rules see them: those before the batch, and over them the
// rows that the rules have set. A Record is a value; its Registers are never modified.
type Rows interface {
	Link(person.Ref) (Link, bool)
	Record(uuid.UUID) (Record, bool)
	// Links returns all links of a person, in any order.
	Links(uuid.UUID) ([]Link, error)
	SetLink(Link)
	SetRecord(Record)
	Remove(uuid.UUID)
	// Override adds a link to the outbox.
	Override(Link)
}

// Delta is what a batch says of one distinct id.
type Delta struct {
	person.Ref
	FirstMilli, LastMilli int64 // unix milliseconds of the earliest and the latest event
	Properties            Registers
}

// Deltas gathers changes by distinct id, in the order of their first change. They share
// the memory of the changes.
func Deltas(changes []person.Change) []Delta {
	deltas := make([]Delta, 0, len(changes))
	at := make(map[person.Ref]int, len(changes))
	for i := range changes {
		c := &changes[i]
		d := Delta{c.Ref, c.At.UnixMilli(), c.At.UnixMilli(), nil}
		if len(c.Properties) > 0 {
			d.Properties = registersOf(c)
		}
		if k, ok := at[c.Ref]; ok {
			deltas[k].add(&d)
			continue
		}
		at[c.Ref] = len(deltas)
		deltas = append(deltas, d)
	}
	return deltas
}

func (d *Delta) add(o *Delta) {
	d.FirstMilli, d.LastMilli = min(d.FirstMilli, o.FirstMilli), max(d.LastMilli, o.LastMilli)
	d.Properties, _ = d.Properties.Join(o.Properties)
}

// Covers says whether d would leave the person unchanged. A person never forgets what it
// knows, also not by being merged into another, so an older record may be asked too.
func (r *Record) Covers(d *Delta) bool {
	return r.CreatedMilli <= d.FirstMilli && r.UpdatedMilli >= floorHour(d.LastMilli) && r.Properties.covers(d.Properties)
}

// Covers is Record.Covers of a stored person: its registers are what Encode made, and are
// read only where the delta has properties. Registers that cannot be read cover nothing.
func Covers(createdMilli, updatedMilli int64, registers []byte, d *Delta) bool {
	r := Record{CreatedMilli: createdMilli, UpdatedMilli: updatedMilli}
	if len(d.Properties) > 0 {
		var err error
		if r.Properties, err = Decode(registers); err != nil {
			return false
		}
	}
	return r.Covers(d)
}

// seen extends the time of a person by that of an event, and says whether that changed it.
func (r *Record) seen(firstMilli, lastMilli int64) bool {
	created, updated := r.CreatedMilli, r.UpdatedMilli
	r.CreatedMilli, r.UpdatedMilli = min(created, firstMilli), max(updated, floorHour(lastMilli))
	return r.CreatedMilli != created || r.UpdatedMilli != updated
}

// Fold folds d into the person of its distinct id, and creates the person if it is not
// stored. It sets nothing where nothing changes.
func Fold(rows Rows, d *Delta) {
	r, stored := open(rows, d.Ref)
	seen := r.seen(d.FirstMilli, d.LastMilli)
	properties, more := r.Properties.Join(d.Properties)
	if seen || more || !stored {
		r.Properties = properties
		rows.SetRecord(r)
	}
}

// open finds the person of a distinct id, or begins a new one.
func open(rows Rows, ref person.Ref) (_ Record, stored bool) {
	link, ok := rows.Link(ref)
	if !ok {
		link = Link{Ref: ref, Person: person.ID(ref)}
		rows.SetLink(link)
	}
	r, ok := rows.Record(link.Person)
	if !ok {
		r = Record{ID: link.Person, Project: ref.Project, CreatedMilli: math.MaxInt64, UpdatedMilli: math.MinInt64}
	}
	return r, ok
}

// Unite makes both distinct ids of m one person, unless the guard refuses. The versions
// that it gives are greater than above.
func Unite(rows Rows, m *person.Merge, above uint64) (person.Outcome, error) {
	if m.Other == m.Distinct {
		return person.Same, nil
	}
	into, _ := open(rows, m.Ref)
	changed := into.seen(m.At.UnixMilli(), m.At.UnixMilli()) || !into.Identified
	into.Identified = true

	outcome := person.Merged
	other, known := rows.Link(person.Ref{Project: m.Project, Distinct: m.Other})
	switch from, ok := rows.Record(other.Person); {
	case !known: // remember it anyway: events may be stored under its derived person
		move(rows, Link{Ref: person.Ref{Project: m.Project, Distinct: m.Other}}, into.ID, above)
	case other.Person == into.ID:
		outcome = person.Same
	case ok && from.Identified && !m.Force:
		outcome = person.Refused
	default:
		links, err := rows.Links(other.Person)
		if err != nil {
			return 0, err
		}
		slices.SortFunc(links, func(a, b Link) int { return strings.Compare(a.Distinct, b.Distinct) })
		for _, l := range links {
			move(rows, l, into.ID, above)
		}
		if ok {
			changed = true
			into.seen(from.CreatedMilli, from.UpdatedMilli)
			into.Properties, _ = into.Properties.Join(from.Properties.demoted())
			rows.Remove(from.ID)
		}
	}
	if changed {
		rows.SetRecord(into)
	}
	return outcome, nil
}

// move gives a distinct id to another person, also for readers of old events.
func move(rows Rows, l Link, to uuid.UUID, above uint64) {
	l.Person, l.Version = to, max(l.Version, above)+1
	rows.SetLink(l)
	rows.Override(l)
}

// Show turns a stored person into a shown one that shares no memory with it. Distinct must
// be sorted.
func (r *Record) Show(distinct []string) *person.Person {
	return &person.Person{
		ID: r.ID, Project: r.Project, Distinct: distinct, Identified: r.Identified,
		Properties: r.Properties.Clone().Properties(),
		Created:    time.UnixMilli(r.CreatedMilli).UTC(), Updated: time.UnixMilli(r.UpdatedMilli).UTC(),
	}
}
