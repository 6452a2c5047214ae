package tableprofile

import (
	"sync"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidemill/tidemill/state/profile/internal/rules"
)

// mostNames is how many identities are remembered, of about 250 bytes each.
const mostNames = 64 << 10

// names remembers whose identities are, for a store that alone changes its table. An identity
// stays with its profile until that is deleted.
type names struct {
	mu      sync.Mutex // guards all below; held for short work in memory
	of      *simplelru.LRU[rules.Name, uuid.UUID]
	deleted uint64 // how many deletions began and ended
	going   int    // deletions that have not ended: meanwhile nothing is learned
}

func newNames() (*names, error) {
	of, err := simplelru.NewLRU[rules.Name, uuid.UUID](mostNames, nil)
	return &names{of: of}, err
}

// apart returns the names whose owners are remembered, and the others, with the state that learn
// and still ask for. Nil remembers nothing.
func (n *names) apart(all []rules.Name) (known []rules.Gift, unknown []rules.Name, deleted uint64) {
	if n == nil {
		return nil, all, 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range all {
		if id, ok := n.of.Get(name); ok {
			known = append(known, rules.Gift{Name: name, Profile: id})
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
		n.of.Add(g.Name, g.Profile)
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
		n.of.Remove(name)
	}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.deleted++
		n.going--
	}
}
