package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/profile"
)

// Name is an identity of a tenant; at most one profile has it.
type Name struct {
	Tenant string
	profile.Identity
}

// Compare orders names by tenant, then as identities, byte for byte.
func (n Name) Compare(o Name) int {
	return cmp.Or(strings.Compare(n.Tenant, o.Tenant), n.Identity.Compare(o.Identity))
}

// Owner is a profile of a tenant.
type Owner struct {
	Tenant string
	ID     uuid.UUID
}

// Compare orders owners by tenant, then by id.
func (o Owner) Compare(p Owner) int {
	return cmp.Or(strings.Compare(o.Tenant, p.Tenant), slices.Compare(o.ID[:], p.ID[:]))
}

// Gift is a name that a profile gets.
type Gift struct {
	Name
	Profile uuid.UUID
}

// Batch is one call of Resolve by the rules of the role. The store calls Again, reads the owners
// of Names and reports them by Has, reads the identities of the profiles of Crowd and reports
// them by Holds, calls Decide, and writes Given and the Identities of Created and Attached.
type Batch struct {
	Names []Name // names asked for, sorted, each once

	// Decide sets what is to be written.
	Created  []Owner // new profiles, in the order of their asks
	Given    []Gift  // in the order of their asks
	Attached []Owner // existing profiles that are given a name; sorted, each once

	asks    []profile.Ask
	wants   [][]Name // of each ask; nil: answered
	answers []profile.Answer
	owners  map[Name]uuid.UUID
	has     map[uuid.UUID][]profile.Identity
	fresh   map[uuid.UUID]bool // created profiles
	o       profile.Options
}

// NewBatch checks the asks and answers the invalid ones. Options must have their defaults.
func NewBatch(asks []profile.Ask, answers []profile.Answer, o profile.Options) (*Batch, error) {
	if len(answers) < len(asks) {
		return nil, fmt.Errorf("resolve %d profiles: there is room for %d answers", len(asks), len(answers))
	}
	b := &Batch{asks: asks, answers: answers[:len(asks)], o: o, wants: make([][]Name, len(asks)), Names: make([]Name, 0, 3*len(asks)),
		owners: make(map[Name]uuid.UUID, len(asks)), has: map[uuid.UUID][]profile.Identity{}, fresh: map[uuid.UUID]bool{}}
	for i := range asks {
		ids, err := asks[i].Identities.Normal()
		if err = cmp.Or(profile.CheckTenant(asks[i].Tenant), err); err != nil {
			answers[i] = profile.Answer{Err: err}
			continue
		}
		at := len(b.Names)
		for _, id := range ids {
			b.Names = append(b.Names, Name{strings.Clone(asks[i].Tenant), id})
		}
		b.wants[i] = slices.Clone(b.Names[at:])
	}
	slices.SortFunc(b.Names, Name.Compare)
	b.Names = slices.Compact(b.Names)
	return b, nil
}

// Has says that a profile has a name.
func (b *Batch) Has(n Name, id uuid.UUID) { b.owners[n] = id }

// Crowd are the profiles whose identities matter: they may be given one or have reached their
// limit; sorted, each once. With all they are those of all names.
func (b *Batch) Crowd(all bool) []Owner {
	var crowd []Owner
	for _, want := range b.wants {
		owners := make([]uuid.UUID, 0, 3)
		for _, n := range want {
			if id, ok := b.owners[n]; ok {
				owners = append(owners, id)
			}
		}
		same := len(owners) == len(want) && !slices.ContainsFunc(owners, func(id uuid.UUID) bool { return id != owners[0] })
		if all || !same {
			for _, id := range owners {
				crowd = append(crowd, Owner{want[0].Tenant, id})
			}
		}
	}
	slices.SortFunc(crowd, Owner.Compare)
	return slices.Compact(crowd)
}

// Holds says which identities a profile has; none is the default.
func (b *Batch) Holds(id uuid.UUID, is []profile.Identity) { b.has[id] = is }

// Identities are those of a profile after Decide, sorted.
func (b *Batch) Identities(id uuid.UUID) []profile.Identity {
	slices.SortFunc(b.has[id], profile.Identity.Compare)
	return b.has[id]
}

// count says how many identities of a kind a profile has.
func (b *Batch) count(id uuid.UUID, k profile.Kind) (n int) {
	for _, i := range b.has[id] {
		if i.Kind == k {
			n++
		}
	}
	return n
}

// Decide answers all asks, and says whether anything is to be written. Names that it gives
// count as taken for the asks after it.
func (b *Batch) Decide() (write bool) {
	for i, want := range b.wants {
		if want != nil {
			b.answers[i] = b.decide(want, b.asks[i].Create)
		}
	}
	slices.SortFunc(b.Attached, Owner.Compare)
	b.Attached = slices.Compact(b.Attached)
	return len(b.Given) > 0
}

func (b *Batch) decide(want []Name, create bool) profile.Answer {
	var profiles []uuid.UUID
	var kinds []profile.Kind
	missing := make([]Name, 0, len(want))
	for _, n := range want {
		id, ok := b.owners[n]
		switch {
		case !ok:
			missing = append(missing, n)
		case n.Kind > profile.External && want[0].Kind == profile.External && b.another(id, want[0]):
		case !slices.Contains(profiles, id):
			profiles, kinds = append(profiles, id), append(kinds, n.Kind)
		}
	}
	switch {
	case len(profiles) > 1:
		return profile.Answer{Err: &tidemill.Error{Kind: tidemill.Business, Err: &profile.AmbiguousError{Profiles: profiles, Kinds: kinds}}}
	case len(profiles) == 1:
		return b.attach(profiles[0], missing)
	case !create:
		return profile.Answer{Err: notFound()}
	}
	id := b.o.NewID()
	b.Created, b.fresh[id] = append(b.Created, Owner{want[0].Tenant, id}), true
	b.give(id, missing)
	return profile.Answer{Profile: id, New: true}
}

// another says whether a profile is somebody else than the owner of this external id.
func (b *Batch) another(id uuid.UUID, external Name) bool {
	if owner, ok := b.owners[external]; ok && owner == id {
		return false
	}
	return b.count(id, profile.External) >= b.o.Externals
}

// attach gives names without an owner to a profile that was found by another name.
func (b *Batch) attach(id uuid.UUID, names []Name) profile.Answer {
	if len(names) == 0 {
		return profile.Answer{Profile: id}
	}
	for _, n := range names { // externals have their own limit: this would be another
		if b.count(id, n.Kind) >= profile.MaxEach {
			return profile.Answer{Err: tidemill.Fail(tidemill.Business, "attach an identity to profile %v: %w: it has %d of kind %v", id, profile.ErrFull, profile.MaxEach, n.Kind)}
		}
	}
	if !b.fresh[id] {
		b.Attached = append(b.Attached, Owner{names[0].Tenant, id})
	}
	b.give(id, names)
	return profile.Answer{Profile: id}
}

func (b *Batch) give(id uuid.UUID, names []Name) {
	for _, n := range names {
		b.owners[n] = id
		b.has[id] = append(b.has[id], n.Identity)
		b.Given = append(b.Given, Gift{n, id})
	}
}

// Again forgets what was reported and decided, for another try.
func (b *Batch) Again() {
	clear(b.owners)
	clear(b.has)
	clear(b.fresh)
	b.Created, b.Given, b.Attached = nil, nil, nil
}

func notFound() error { return &tidemill.Error{Kind: tidemill.NotFound, Err: profile.ErrNotFound} }

// NotFound is the error of a profile that does not exist.
func NotFound(tenant string, id uuid.UUID) error {
	return tidemill.Fail(tidemill.NotFound, "profile %v of tenant %.80q: %w", id, tenant, profile.ErrNotFound)
}

// Sought is the name that Find looks for.
func Sought(tenant string, by profile.Identity) (Name, error) {
	n, err := by.Normal()
	if err == nil && n.Value == "" {
		err = tidemill.Fail(tidemill.Validation, "%w: %v: it is empty", profile.ErrIdentity, n.Kind)
	}
	return Name{tenant, n}, cmp.Or(profile.CheckTenant(tenant), err)
}

// NobodyHas is the error of an identity that no profile has.
func NobodyHas(n Name) error {
	return tidemill.Fail(tidemill.NotFound, "the profile of this %v of tenant %.80q: %w", n.Kind, n.Tenant, profile.ErrNotFound)
}
