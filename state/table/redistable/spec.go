package redistable

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/internal/layout"
)

// stored is what a table was made for, as Redis has it: a line with its number, which grows with
// each change, a line with the signature, and one more while orders are filled: with the signature
// that writers keep already, and readers not yet.
type stored struct {
	raw        string
	number     string
	made, next string
}

const numberSize = 16 // in hex

func readStored(raw string) (s stored, err error) {
	lines := strings.Split(raw, "\n")
	if len(lines) < 2 || len(lines) > 3 || len(lines[0]) != numberSize {
		return s, fmt.Errorf("read what a table was made for: %w", wire.ErrDamaged)
	}
	return stored{raw, lines[0], lines[1], strings.Join(lines[2:], "")}, nil
}

// written is what writers keep.
func (s stored) written() string {
	if s.next != "" {
		return s.next
	}
	return s.made
}

// after is the spec in the place of this one.
func (s stored) after(made, next string) string {
	n := uint64(0)
	_, _ = fmt.Sscanf(s.number, "%x", &n) // nothing: the first
	raw := fmt.Sprintf("%0*x\n%s", numberSize, n+1, made)
	if next != "" {
		raw += "\n" + next
	}
	return raw
}

// known is what a store knows of its table.
type known[T any] struct {
	of     *layout.Layout[T]
	number string
	beyond layout.Part // what a newer program has added
	orders []string    // all that are kept, "" first: by key
	by     map[string][]string
}

func knownOf[T any](of *layout.Layout[T], number string, beyond layout.Part) *known[T] {
	k := &known[T]{of, number, beyond, []string{""}, map[string][]string{"": nil}}
	for _, orders := range [][]table.Order{of.Orders, beyond.Orders} {
		for _, o := range orders {
			k.orders, k.by[o.Name] = append(k.orders, o.Name), o.By
		}
	}
	return k
}

// members are a record's members of all orders, empty where there is no record.
func (k *known[T]) members(r *kept[T], orders []string) []string {
	all := make([]string, len(orders))
	if r == nil || r.row == nil {
		return all
	}
	unknown := k.unknown(r)
	for i, o := range orders {
		if order := k.of.Order(o); order != nil {
			all[i] = member(ats(r.row, order))
			continue
		}
		var at []any
		for _, name := range k.by[o] {
			if f, ok := k.of.Field(name); ok {
				at = append(at, f.At(r.row))
			} else {
				at = append(at, unknown[name])
			}
		}
		all[i] = member(append(at, k.of.Fields[0].At(r.row)))
	}
	return all
}

// unknown are the fields of a record that this program has no place for. Where they are not those
// that the newer program writes, the commit fails, as the spec has changed.
func (k *known[T]) unknown(r *kept[T]) map[string]any {
	if len(k.beyond.Fields) == 0 {
		return nil
	}
	from, all := wire.NewReader([]byte(r.unknown)), map[string]any{}
	for i, f := range k.beyond.Fields {
		at := f.Zero()
		if all[f.Name] = at; i < r.more {
			read(from, at)
		}
	}
	return all
}

// look reads what the table was made for.
func (s *Store[T]) look(ctx context.Context) (now stored, err error) {
	raw, err := s.client.Do(ctx, s.client.B().Get().Key(s.tag+"spec").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return stored{}, nil
	}
	if err != nil {
		return now, redisconn.Error(err, "open table %s", s.of.Name)
	}
	return readStored(raw)
}

// set changes what the table was made for, if it is still as it was read.
func (s *Store[T]) set(ctx context.Context, before stored, made, next string) error {
	err := specScript.Exec(ctx, s.client, []string{s.tag + "spec"}, []string{before.raw, before.after(made, next)}).Error()
	return redisconn.Error(err, "open table %s", s.of.Name)
}

// open makes the table, or adds what it lacks: first writers keep the new orders, then these are
// filled, and then readers may use them. Several processes may do so at once, and one may go on
// where another has ended.
func (s *Store[T]) open(ctx context.Context) error {
	for range most {
		now, err := s.look(ctx)
		if err != nil {
			return err
		}
		if now.raw == "" {
			if err := s.set(ctx, now, s.of.Signature(), ""); err != nil {
				return err
			}
			continue
		}
		lacks, _, err := s.of.Fit(now.made)
		if err != nil {
			return err
		}
		behind, beyond, err := s.of.Fit(now.written())
		switch {
		case err != nil:
			return err
		case lacks.None():
			s.spec.Store(knownOf(s.of, now.number, beyond))
			return nil
		case !behind.None():
			err = s.set(ctx, now, now.made, s.of.Signature())
		default:
			if err = s.fill(ctx, knownOf(s.of, now.number, beyond)); err == nil {
				err = s.set(ctx, now, now.next, "")
			}
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("table %s: %w", s.of.Name, errMoved)
}

// reload reads what the table is now, as a newer program has changed it. Where Redis has lost it, it
// is made again.
func (s *Store[T]) reload(ctx context.Context) error {
	now, err := s.look(ctx)
	if err != nil {
		return err
	}
	if now.raw == "" {
		return s.open(ctx)
	}
	_, beyond, err := s.of.Fit(now.written())
	if err != nil {
		return err
	}
	s.spec.Store(knownOf(s.of, now.number, beyond))
	return nil
}

// fill puts all records into all orders.
func (s *Store[T]) fill(ctx context.Context, spec *known[T]) error {
	low := "-"
	for {
		found, err := s.section(ctx, "", low, "+", readKeys, "")
		if err != nil {
			return err
		}
		keys := make([]string, len(found.members))
		for i, m := range found.members {
			keys[i] = keyOf(m)
		}
		for len(keys) > 0 && err == nil {
			keys, err = s.fillSome(ctx, spec, keys)
		}
		if err != nil || len(found.members) < readKeys {
			return err
		}
		low = "(" + found.members[len(found.members)-1]
	}
}

// fillSome puts records into all orders, and returns those that have changed meanwhile.
func (s *Store[T]) fillSome(ctx context.Context, spec *known[T], some []string) (changed []string, err error) {
	orders, keys := spec.orders[1:], []string{s.tag + "rows"}
	for _, o := range orders {
		keys = append(keys, s.tag+"by:"+o)
	}
	_, rows, err := s.rows(ctx, some)
	if err != nil {
		return nil, err
	}
	var args []string
	for i, key := range some {
		k, err := decode(key, rows[i], s.of.Fields)
		if err != nil {
			return nil, fmt.Errorf("fill an order of table %s: %w", s.of.Name, err)
		}
		args = append(append(args, key, k.version), spec.members(k, orders)...)
	}
	changed, err = fillScript.Exec(ctx, s.client, keys, args).AsStrSlice()
	return changed, redisconn.Error(err, "fill an order of table %s", s.of.Name)
}
