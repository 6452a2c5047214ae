package tabledeadletter

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/table"
)

// ofOwners begins the keys of owners, with what no name begins with.
const ofOwners = "\xfb"

func ownersKey(pipeline string) string { return string(part([]byte(ofOwners), pipeline)) }

// bySize is where the owners of a pipeline are in the order of causes: by the number of their dead
// letters.
func bySize(pipeline string, size uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(ownersKey(pipeline)), size))
}

// owners are how those of some dead letters change in a transaction, by their keys.
type owners map[string]*owning

// owning is how many dead letters an owner of a pipeline has more.
type owning struct {
	pipeline, tenant string
	more             int
}

func (o owners) at(r *Record) *owning {
	key := string(part([]byte(ownersKey(r.Pipeline)), r.Tenant))
	if o[key] == nil {
		o[key] = &owning{pipeline: r.Pipeline, tenant: r.Tenant}
	}
	return o[key]
}

func (o owners) join(r *Record) {
	if !r.owned {
		o.at(r).more++
		r.owned = true
	}
}

// leave takes a dead letter from its owner, unless it was put by a program that did not count it.
func (o owners) leave(r *Record) {
	if r.owned {
		o.at(r).more--
		r.owned = false
	}
}

// rows are the records of owners that change, and the keys of those that have no dead letters any more.
func (o owners) rows(found map[string]*Record) (rows []*Record, gone []string) {
	for key, own := range o {
		if own.more == 0 {
			continue
		}
		r := &Record{key: key, state: owner}
		if was := found[key]; was != nil {
			r.size = was.size
		}
		if r.size = uint64(max(0, int(r.size)+own.more)); r.size == 0 {
			gone = append(gone, key)
			continue
		}
		r.Pipeline, r.Tenant, r.group = own.pipeline, own.tenant, bySize(own.pipeline, r.size)
		rows = append(rows, r)
	}
	return rows, gone
}

// Owners implements deadletter.Store. It reads the owners, and no dead letters.
func (s *Store[Raw]) Owners(ctx context.Context, only func(string) bool) (all []deadletter.Owner, err error) {
	err = s.t.View(ctx, func(tx table.Reader[Record]) error {
		all = nil
		pipelines, err := pipelinesIn(tx, only)
		if err != nil {
			return err
		}
		for _, name := range pipelines {
			page, err := tx.Page(table.Query[Record]{By: "cause", Back: true, Most: deadletter.MaxOwners, Only: []string{"tenant", "size"}, Where: []table.Cond{
				{Field: "grouped", Op: ">", Value: ownersKey(name)}, {Field: "grouped", Op: "<=", Value: ownersKey(name) + strings.Repeat("\xff", 8)}}})
			if err != nil {
				return err
			}
			for _, r := range page {
				all = append(all, deadletter.Owner{Pipeline: name, Tenant: r.Tenant, Count: int(r.size)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the owners of dead letters: %w", err)
	}
	return all, nil
}
