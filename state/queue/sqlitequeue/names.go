package sqlitequeue

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/tidemill/tidemill/internal/idset"
	"github.com/tidemill/tidemill/state/queue"
)

// Which names are known is a set of ids, each with the position of its job in the file.
const nameTables = "queue_name"

// nameOf makes the name of a job. Its hash covers only the queue and the ID, so that an ack without
// a tenant finds it; its check covers all three, and is cryptographic: nobody can make a job that
// passes for another tenant's. buf is scratch memory, returned for the next call.
func nameOf(no uint32, tenant, id string, buf []byte) (idset.ID, []byte) {
	buf = binary.LittleEndian.AppendUint32(buf[:0], no)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(tenant)))
	buf = append(buf, tenant...)
	buf = append(buf, id...)
	sum := sha256.Sum256(buf)
	return idset.ID{Hash: idHash(no, id), Check: binary.LittleEndian.Uint64(sum[:])}, buf
}

func idHash(no uint32, id string) uint64 {
	return xxhash.Sum64String(id) ^ uint64(no)*0x9e3779b97f4a7c15 // the golden ratio spreads queues
}

// SweepEvery is how often to call Sweep.
const SweepEvery = idset.SweepEvery

// Sweep does the housekeeping that no caller should wait for: it merges runs of names, and forgets
// those that are older than queue.Remember, unless their jobs are held. Call it every SweepEvery;
// without it adding jobs becomes slower with every run, and names are never forgotten.
func (s *Store) Sweep(ctx context.Context) error {
	return s.names.Sweep(ctx, idset.Forget{Before: s.o.Now().Add(-queue.Remember), Held: func(ctx context.Context) (func(int64) bool, error) {
		held, err := s.held(ctx)
		if err != nil {
			return nil, err
		}
		return held.have, nil
	}})
}
