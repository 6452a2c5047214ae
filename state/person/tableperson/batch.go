package tableperson

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/state/person/internal/known"
	"github.com/tidemill/tidemill/state/person/internal/rules"
	"github.com/tidemill/tidemill/state/table"
)

// batch is the state of one transaction: what it has loaded, and over it what the rules have set.
type batch struct {
	persons table.Tx[Record]
	moves   table.Tx[Move]
	lists   table.Tx[Entry]
	number  uint64 // of the transaction
	refs    []person.Ref
	links   map[person.Ref]rules.Link
	records map[uuid.UUID]*row

	changed   []*row              // in the order of their first change
	moved     []person.Ref        // each once
	fresh     map[person.Ref]bool // the same, and whether nothing was known of it
	overrides []rules.Link
	last      uint64      // number of the last override
	damaged   []uuid.UUID // whose registers could not be read
}

// row is a person, loaded or new.
type row struct {
	rules.Record
	distinct string // that the id is derived from
	raw      []byte // registers as stored
	stored   bool
	changed  bool
	replaced bool // registers are not raw any more
	removed  bool
}

var _ rules.Rows = (*batch)(nil)

func (b *batch) Link(ref person.Ref) (rules.Link, bool) {
	l, ok := b.links[ref]
	return l, ok
}

func (b *batch) Record(id uuid.UUID) (rules.Record, bool) {
	r, ok := b.records[id]
	if !ok || r.removed {
		return rules.Record{}, false
	}
	return r.Record, true
}

// SetLink makes the row of a new person when its first link is set: the rules set its record next.
func (b *batch) SetLink(l rules.Link) {
	_, known := b.links[l.Ref]
	b.links[l.Ref] = l
	if l.Version == 0 {
		b.records[l.Person] = &row{distinct: l.Distinct, removed: true}
		return
	}
	if _, twice := b.fresh[l.Ref]; !twice {
		b.moved = append(b.moved, l.Ref)
		if b.fresh == nil {
			b.fresh = map[person.Ref]bool{}
		}
		b.fresh[l.Ref] = !known
	}
	b.touch(b.records[l.Person])
}

func (b *batch) SetRecord(rec rules.Record) {
	r := b.records[rec.ID]
	r.replaced = r.replaced || !r.Properties.Same(rec.Properties)
	r.Record, r.removed = rec, false
	b.touch(r)
}

// touch writes a person, changed or not: see the package's comment.
func (b *batch) touch(r *row) {
	if !r.changed {
		r.changed = true
		b.changed = append(b.changed, r)
	}
}

func (b *batch) Remove(id uuid.UUID) { b.records[id].removed = true }

func (b *batch) Override(l rules.Link) { b.overrides = append(b.overrides, l) }

const linksPage = 1000

// Links returns the links of a person: its own, those that this batch has made, and the stored
// ones. Stored links are current: all ids move away from a person at once, and then it is gone.
func (b *batch) Links(id uuid.UUID) (links []rules.Link, err error) {
	if r, ok := b.records[id]; ok && !r.removed {
		own := rules.Link{Ref: person.Ref{Project: r.Project, Distinct: r.distinct}, Person: id}
		b.links[own.Ref] = own
		links = append(links, own)
	}
	for _, ref := range b.moved {
		if l := b.links[ref]; l.Person == id {
			links = append(links, l)
		}
	}
	moved, err := table.All(b.moves, table.Query[Move]{By: "person", Where: []table.Cond{{Field: "person", Op: "=", Value: id[:]}}, Most: linksPage})
	if err != nil || len(moved) == 0 {
		return links, err
	}
	keys := make([]string, len(moved))
	for i, m := range moved {
		keys[i] = m.key
	}
	found, err := b.persons.Get(keys, "project", "distinct_id", "version")
	if err != nil {
		return nil, fmt.Errorf("read the distinct ids of person %v: %w", id, err)
	}
	for _, r := range found {
		l := rules.Link{Ref: refOf(r.project, r.distinct), Person: id, Version: r.version}
		b.links[l.Ref] = l
		links = append(links, l)
	}
	return links, nil
}

// load reads the links of refs and their persons.
func (b *batch) load(refs []person.Ref) error {
	b.links = make(map[person.Ref]rules.Link, len(refs))
	b.records = make(map[uuid.UUID]*row, len(refs))
	ids, keys := make([]uuid.UUID, 0, len(refs)), make([]string, 0, len(refs))
	for _, ref := range refs {
		if _, twice := b.links[ref]; !twice {
			b.links[ref] = rules.Link{}
			id := person.ID(ref)
			b.refs, ids, keys = append(b.refs, ref), append(ids, id), append(keys, string(id[:]))
		}
	}
	found, err := b.persons.Get(keys, linkFields...)
	if err != nil {
		return fmt.Errorf("read %d distinct ids: %w", len(keys), err)
	}
	var owners []uuid.UUID
	for i, ref := range b.refs {
		r := found[keys[i]]
		switch {
		case r == nil:
			delete(b.links, ref)
		case len(r.person) == 0:
			b.links[ref] = rules.Link{Ref: ref, Person: ids[i]}
			if err := b.loaded(ids[i], ref, r); err != nil {
				return err
			}
		default:
			b.links[ref] = rules.Link{Ref: ref, Person: uid(r.person), Version: r.version}
			owners = append(owners, uid(r.person))
		}
	}
	if err := b.owners(owners); err != nil {
		return err
	}
	for _, ref := range b.refs { // a person that is not there: it moved after its link was read, and the transaction begins again
		if l, ok := b.links[ref]; ok && b.records[l.Person] == nil {
			delete(b.links, ref)
		}
	}
	return nil
}

// owners reads persons that are not loaded yet.
func (b *batch) owners(ids []uuid.UUID) error {
	var keys []string
	for _, id := range ids {
		if b.records[id] == nil && !slices.Contains(keys, string(id[:])) {
			keys = append(keys, string(id[:]))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := b.persons.Get(keys, ownerFields...)
	if err != nil {
		return fmt.Errorf("read %d persons: %w", len(keys), err)
	}
	for key, r := range found {
		if len(r.person) > 0 {
			continue // it was merged into another
		}
		if err := b.loaded(uid([]byte(key)), refOf(r.project, r.distinct), r); err != nil {
			return err
		}
	}
	return nil
}

// loaded adds a person that was read. If its registers are damaged, it uses the properties beside
// them, which lack their times: otherwise the person would stop every batch that it is part of.
func (b *batch) loaded(id uuid.UUID, derivedFrom person.Ref, stored *Record) error {
	r := &row{distinct: derivedFrom.Distinct, raw: stored.registers, stored: true, Record: rules.Record{ID: id, Project: derivedFrom.Project,
		Identified: stored.identified, CreatedMilli: int64(stored.created), UpdatedMilli: int64(stored.updated)}}
	b.records[id] = r
	var err error
	if r.Properties, err = rules.Decode(r.raw); err == nil {
		return nil
	}
	var object []byte
	found, e := b.persons.Get([]string{string(id[:])}, "properties")
	if e != nil {
		return fmt.Errorf("read person %v: %w", id, e)
	}
	for _, f := range found {
		object = f.properties
	}
	if r.Properties, e = rules.Untimed(id, object); e != nil {
		return fmt.Errorf("read person %v: %w; its properties are damaged too, restore the database from a backup: %w", id, err, e)
	}
	r.replaced = true
	b.touch(r) // repair it
	b.damaged = append(b.damaged, id)
	return nil
}

// behind is the person of a distinct id, nil if none is stored.
func (b *batch) behind(ref person.Ref) *row {
	l, ok := b.links[ref]
	if !ok {
		return nil
	}
	return b.records[l.Person]
}

// known is what the cache remembers of a distinct id.
func (b *batch) known(ref person.Ref) (known.Person, bool) {
	r := b.behind(ref)
	if r == nil || r.removed {
		return known.Person{}, false
	}
	return known.Person{ID: r.ID, CreatedMilli: r.CreatedMilli, UpdatedMilli: r.UpdatedMilli, Identified: r.Identified, Registers: r.raw}, true
}

// store writes what was set.
func (b *batch) store() error {
	if err := b.storePersons(); err != nil {
		return fmt.Errorf("write %d persons: %w", len(b.changed), err)
	}
	if len(b.moved) == 0 {
		return nil
	}
	if err := b.storeMoved(); err != nil {
		return fmt.Errorf("write %d distinct ids: %w", len(b.moved), err)
	}
	if err := b.storeOverrides(); err != nil {
		return fmt.Errorf("write %d overrides: %w", len(b.overrides), err)
	}
	return nil
}

// storePersons writes changed persons: new ones whole, and of stored ones what has changed.
func (b *batch) storePersons() error {
	var fresh, heads, wholes []*Record
	var memory []byte // for what all of them store
	stored := func(appendTo func([]byte) []byte) []byte {
		from := len(memory)
		memory = appendTo(memory)
		return memory[from:len(memory):len(memory)]
	}
	for _, r := range b.changed {
		if r.removed {
			continue
		}
		rec := &Record{key: string(r.ID[:]), identified: r.Identified, created: uint64(r.CreatedMilli), updated: uint64(r.UpdatedMilli)}
		if r.replaced {
			r.raw = stored(r.Properties.AppendBinary)
			rec.registers, rec.properties = r.raw, stored(r.Properties.AppendJSON)
		}
		if !r.stored {
			rec.project, rec.distinct = r.Project[:], r.distinct
		}
		switch {
		case r.stored && r.replaced:
			wholes = append(wholes, rec)
		case r.stored:
			heads = append(heads, rec)
		default:
			fresh = append(fresh, rec)
		}
	}
	for _, put := range []struct {
		rows []*Record
		only []string
	}{{fresh, nil}, {heads, headFields}, {wholes, wholeFields}} {
		if len(put.rows) == 0 {
			continue
		}
		if err := b.persons.Put(put.rows, put.only...); err != nil {
			return err
		}
	}
	return nil
}

// storeMoved writes distinct ids that moved.
func (b *batch) storeMoved() error {
	var fresh, stored []*Record
	moves := make([]*Move, 0, len(b.moved))
	for _, ref := range b.moved {
		l, derived := b.links[ref], person.ID(ref)
		r := &Record{key: string(derived[:]), person: l.Person[:], version: l.Version}
		if own := b.records[derived]; b.fresh[ref] || own != nil && !own.stored {
			r.project, r.distinct = ref.Project[:], ref.Distinct
			fresh = append(fresh, r)
		} else {
			stored = append(stored, r)
		}
		moves = append(moves, &Move{key: r.key, person: r.person})
	}
	if len(fresh) > 0 {
		if err := b.persons.Put(fresh); err != nil {
			return err
		}
	}
	if len(stored) > 0 {
		if err := b.persons.Put(stored, movedFields...); err != nil {
			return err
		}
	}
	return b.moves.Put(moves)
}

// storeOverrides writes overrides in the order of the moves. Their numbers come last: others wait
// for them until the commit.
func (b *batch) storeOverrides() (err error) {
	if b.last, err = numbers(b.lists, len(b.overrides)); err != nil {
		return err
	}
	all := make([]*Entry, 0, len(b.overrides))
	for _, o := range b.overridden() {
		all = append(all, &Entry{key: numbered("o", uint64(o.Seq)), project: o.Project[:], distinct: o.Distinct, person: o.Person[:], version: o.Version})
	}
	return b.lists.Put(all)
}

// overridden are the overrides with their numbers.
func (b *batch) overridden() []person.Override {
	all := make([]person.Override, len(b.overrides))
	for i, l := range b.overrides {
		all[i] = person.Override{Seq: int64(b.last) - int64(len(b.overrides)-1-i), Ref: l.Ref, Person: l.Person, Version: l.Version}
	}
	return all
}

// show is a person with its distinct ids; nil: there is none.
func (b *batch) show(r *row) (*person.Person, error) {
	if r == nil {
		return nil, nil
	}
	links, err := b.Links(r.ID)
	if err != nil {
		return nil, err
	}
	distinct := make([]string, len(links))
	for i, l := range links {
		distinct[i] = l.Distinct
	}
	slices.Sort(distinct)
	return r.Show(distinct), nil
}
