package tableprofile

import (
	"sync"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/recent"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// namesBytes is the memory for identities: about 150,000 of them.
const namesBytes = 16 << 20

// names remembers whose identities are, for a store that alone changes its table. An identity
// stays with its profile until that is deleted.
type names struct {
	mu      sync.Mutex    // guards all below; held for short work in memory
	of      *recent.Bytes // ids of profiles by nameKey
	deleted uint64        // how many deletions began and ended
	going   int           // deletions that have not ended: meanwhile nothing is learned
}

func newNames() *names { return &names{of: recent.NewBytes(namesBytes)} }

// apart returns the names whose owners are remembered, and the others, with the state that learn
// and still ask for. Nil remembers nothing.
func (n *names) apart(all []rules.Name) (known []rules.Gift, unknown []rules.Name, deleted uint64) {
	if n == nil {
		return nil, all, 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range all {
		if id, ok := n.of.Get([]byte(nameKey(name))); ok {
			known = append(known, rules.Gift{Name: name, Profile: uuid.UUID(id)})
		} else {
			unknown = append(unknown, name)
		}
	}
	return known, unknown, n.deleted
}

// still says whether no deletion began or ended since.
func (n *names) still(deleted uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deleted == deleted
}

// learn remembers owners of names that were read, unless a deletion began or ended since.
func (n *names) learn(read []rules.Gift, deleted uint64) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.deleted != deleted || n.going > 0 {
		return
	}
	for _, g := range read {
		n.of.Put([]byte(nameKey(g.Name)), g.Profile[:])
	}
}

// forget forgets the names of a profile that is about to be deleted. Others see that it is gone
// before the caller knows, and must not use what is remembered beside what they read: so it is
// forgotten before, and not learned again until forgotten is called.
func (n *names) forget(of []rules.Name) (forgotten func()) {
	if n == nil {
		return func() {}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deleted++
	n.going++
	for _, name := range of {
		n.of.Remove([]byte(nameKey(name)))
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.deleted++
		n.going--
	}
}
