// Package tableprofile keeps profiles in a table of any backend. An identity is a record that
// leads to its profile, and a profile has a list of its identities, so that nothing is ever
// searched.
package tableprofile

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

// Table is a table whose transactions others of its database can share.
type Table[Raw any] interface {
	table.Store[Record, Raw]
	In(ctx context.Context, raw Raw) table.Tx[Record]
}

// Store is a profile.Store in a table. It may be used from several goroutines.
type Store[Raw any] struct {
	t     Table[Raw]
	o     profile.Options
	names *names // nil: others change the table too
}

var (
	_ profile.Store                          = (*Store[*memorytable.Tx])(nil)
	_ profile.Transactional[*memorytable.Tx] = (*Store[*memorytable.Tx])(nil)
)

// New keeps profiles in a table, which has to be of Spec.
func New[Raw any](t Table[Raw], o profile.Options) (*Store[Raw], error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store[Raw]{t: t, o: o}
	if o.Alone {
		s.names = newNames()
	}
	return s, nil
}

// Memory keeps profiles in memory: for tests, simulation and data that may be lost at a restart.
func Memory(o profile.Options) (*Store[*memorytable.Tx], error) {
	o.Alone = true
	return New(memorytable.Alone(Spec()), o)
}

// Resolve implements profile.Resolver: known profiles are read without a lock, or not at all.
func (s *Store[Raw]) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	b, err := s.batch(ctx, asks, answers)
	if b == nil {
		return err
	}
	known, unknown, deleted := s.names.apart(b.Names)
	if len(unknown) == 0 {
		if report(b, known); len(b.Crowd(false)) == 0 {
			b.Decide()
			return nil
		}
	}
	write, err := s.look(ctx, b, known, unknown, deleted)
	if err == nil && len(known) > 0 && !s.names.still(deleted) { // perhaps one of the known
		write, err = s.look(ctx, b, nil, b.Names, deleted)
	}
	if err == nil && write { // others may have changed them until it can write
		err = s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error { return s.resolve(tx, b, false) })
	}
	if err != nil {
		return fmt.Errorf("resolve %d profiles: %w", len(asks), err)
	}
	return nil
}

// look decides a batch by what is known and what it reads, without a lock, and says whether anything
// is to be written.
func (s *Store[Raw]) look(ctx context.Context, b *rules.Batch, known []rules.Gift, unknown []rules.Name, deleted uint64) (write bool, err error) {
	var read []rules.Gift
	err = s.t.View(ctx, func(r table.Reader[Record]) (err error) {
		b.Again()
		report(b, known)
		if read, err = load(r, b, unknown, false); err == nil {
			write = b.Decide()
		}
		return err
	})
	if err == nil {
		s.names.learn(read, deleted)
	}
	return write, err
}

// report tells a batch whose names are.
func report(b *rules.Batch, of []rules.Gift) {
	for _, g := range of {
		b.Has(g.Name, g.Profile)
	}
}

// batch is nil where there is nothing to do.
func (s *Store[Raw]) batch(ctx context.Context, asks []profile.Ask, answers []profile.Answer) (*rules.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := rules.NewBatch(asks, answers, s.o)
	if err != nil || len(b.Names) == 0 {
		return nil, err
	}
	return b, nil
}

// load reads what a batch needs: the owners of names, which it returns, and those profiles whose
// identities matter.
func load(r table.Reader[Record], b *rules.Batch, names []rules.Name, all bool) (owners []rules.Gift, err error) {
	keys := keysOf(names, nameKey)
	found, err := r.Get(keys, "profile")
	if err != nil {
		return nil, err
	}
	for i, n := range names {
		if r := found[keys[i]]; r != nil {
			owners = append(owners, rules.Gift{Name: n, Profile: uuid.UUID(r.profile)})
		}
	}
	report(b, owners)
	crowd := b.Crowd(all)
	if len(crowd) == 0 {
		return owners, nil
	}
	keys = keysOf(crowd, keyOf)
	profiles, err := r.Get(keys, "identities")
	for i, o := range crowd {
		if r := profiles[keys[i]]; r != nil {
			b.Holds(o.ID, r.has())
		}
	}
	return owners, err
}

// resolve does a whole batch in a transaction.
func (s *Store[Raw]) resolve(tx table.Tx[Record], b *rules.Batch, all bool) error {
	b.Again()
	if _, err := load(tx, b, b.Names, all); err != nil || !b.Decide() {
		return err
	}
	made, now := make([]*Record, 0, len(b.Created)+len(b.Given)), s.o.Now()
	for _, o := range b.Created {
		made = append(made, &Record{key: keyOf(o), identities: lines(b.Identities(o.ID)), created: now, updated: now, attributes: []byte("{}")})
	}
	for _, g := range b.Given {
		made = append(made, &Record{key: nameKey(g.Name), profile: g.Profile[:]})
	}
	if err := tx.Put(made); err != nil || len(b.Attached) == 0 {
		return err
	}
	attached := make([]*Record, len(b.Attached))
	for i, o := range b.Attached {
		attached[i] = &Record{key: keyOf(o), identities: lines(b.Identities(o.ID))}
	}
	return tx.Put(attached, "identities")
}

// Update implements profile.Updater.
func (s *Store[Raw]) Update(ctx context.Context, changes []profile.Change) error {
	return s.edit(ctx, changes, func(e *rules.Edit) error {
		return s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error { return s.update(tx, e) })
	})
}

func (s *Store[Raw]) edit(ctx context.Context, changes []profile.Change, do func(*rules.Edit) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := rules.NewEdit(changes)
	if len(e.Owners) > 0 {
		if err := do(e); err != nil {
			return fmt.Errorf("update %d profiles: %w", len(e.Owners), err)
		}
	}
	return e.Err()
}

// update reads, changes and writes the profiles of an edit.
func (s *Store[Raw]) update(tx table.Tx[Record], e *rules.Edit) error {
	e.Again()
	keys := keysOf(e.Owners, keyOf)
	found, err := tx.Get(keys, "registers")
	if err != nil {
		return err
	}
	for i, o := range e.Owners {
		if r := found[keys[i]]; r != nil {
			registers, err := rules.Decode(o.ID, r.registers)
			e.Found(&rules.Record{Owner: o, Registers: registers}, err)
		}
	}
	e.Apply(s.o.Now())
	changed := make([]*Record, len(e.Changed))
	for i, r := range e.Changed {
		changed[i] = &Record{key: keyOf(r.Owner), updated: r.Updated, attributes: r.Registers.Object(), registers: r.Registers.AppendBinary(nil)}
	}
	return tx.Put(changed, "updated", "attributes", "registers")
}

// In implements profile.Transactional, for a transaction of the table's database: on PostgreSQL
// one that is REPEATABLE READ, as those of tables are. In one that is READ COMMITTED, as those of
// postgresledger are, use Update alone: Resolve may give an identity to two profiles.
func (s *Store[Raw]) In(raw Raw) profile.Profiles { return within[Raw]{s, raw} }

// within are the profiles inside a transaction.
type within[Raw any] struct {
	s   *Store[Raw]
	raw Raw
}

// Resolve locks all the profiles that it answers, so that the Update after it waits for nothing.
func (w within[Raw]) Resolve(ctx context.Context, asks []profile.Ask, answers []profile.Answer) error {
	b, err := w.s.batch(ctx, asks, answers)
	if b == nil {
		return err
	}
	if err := w.s.resolve(w.s.t.In(ctx, w.raw), b, true); err != nil {
		return fmt.Errorf("resolve %d profiles: %w", len(asks), err)
	}
	return nil
}

func (w within[Raw]) Update(ctx context.Context, changes []profile.Change) error {
	return w.s.edit(ctx, changes, func(e *rules.Edit) error { return w.s.update(w.s.t.In(ctx, w.raw), e) })
}

// tries is how often a profile is deleted anew that was given an identity meanwhile.
const tries = 20

// Delete implements profile.Eraser. A database may keep the bytes until it uses their pages
// again.
func (s *Store[Raw]) Delete(ctx context.Context, tenant string, id uuid.UUID) (there bool, err error) {
	if err := profile.CheckTenant(tenant); err != nil {
		return false, fmt.Errorf("delete profile %v: %w", id, err)
	}
	o, raced := rules.Owner{Tenant: tenant, ID: id}, true
	for n := 0; raced && err == nil; n++ {
		if n == tries {
			err = &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("it is given identities again and again")}
			break
		}
		there, raced, err = s.delete(ctx, o)
	}
	if err != nil {
		return false, fmt.Errorf("delete profile %v: %w", id, err)
	}
	return there, nil
}

// delete looks which identities a profile has, and deletes it if these are still all. It locks
// as Resolve does: identities, then the profile.
func (s *Store[Raw]) delete(ctx context.Context, o rules.Owner) (there, raced bool, err error) {
	key := keyOf(o)
	look := func(r table.Reader[Record], keys ...string) (*Record, error) {
		found, err := r.Get(append(keys, key), "identities")
		return found[key], err
	}
	var before *Record
	err = s.t.View(ctx, func(r table.Reader[Record]) (err error) {
		before, err = look(r)
		return err
	})
	if err != nil || before == nil {
		return false, false, err
	}
	var names []rules.Name
	for _, i := range before.has() {
		names = append(names, rules.Name{Tenant: o.Tenant, Identity: i})
	}
	defer s.names.forget(names)() // also after an error: perhaps it is durable
	keys := keysOf(names, nameKey)
	err = s.t.Update(ctx, func(tx table.Tx[Record], _ Raw) error {
		r, err := look(tx, keys...)
		there, raced = r != nil, r != nil && !bytes.Equal(r.identities, before.identities)
		if err != nil || !there || raced {
			return err
		}
		return tx.Delete(append(keys, key))
	})
	return there, raced, err
}
