package request

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/giveway"
	"github.com/tidemill/tidemill/state/project"
)

// How long keys are remembered.
const (
	KeysKept     = 10_000           // of each sort, known and unknown: a few MB
	KeyLife      = time.Minute      // a key taken away is refused after this
	KeyUnknown   = 5 * time.Second  // a key just made works after this
	KeyInTrouble = 10 * time.Minute // how long a known key outlives its life while projects cannot be asked
)

// Keyring remembers whose keys are whose, so that a request asks nobody. Unknown keys
// have a cache of their own: a flood of them cannot push the known ones out.
type Keyring struct {
	refusals *Refusals
	guesses  *Guesses
	projects project.Projects
	now      func() time.Time
	known    *lru.Cache[project.Hash, Owner]
	unknown  *lru.Cache[project.Hash, time.Time] // until when
	changes  atomic.Uint64                       // of the projects, as far as Forget was told
}

// Owner is the project of a key.
type Owner struct {
	Project project.Project
	Tenant  string // its id as text
	until   time.Time
}

// NewKeyring makes an empty one. Who refuses a request for its key says so by Refused; log says
// whose keyring it is.
func NewKeyring(p project.Projects, now func() time.Time, log *slog.Logger) (*Keyring, error) {
	known, err := lru.New[project.Hash, Owner](KeysKept)
	if err != nil {
		return nil, err
	}
	unknown, err := lru.New[project.Hash, time.Time](KeysKept)
	if err != nil {
		return nil, err
	}
	return &Keyring{refusals: NewRefusals(log, now), guesses: NewGuesses(log, "keys"), projects: p, now: now, known: known, unknown: unknown}, nil
}

// Find returns whose key it is: project.ErrUnknown if it is nobody's, another error if
// that cannot be said now.
func (k *Keyring) Find(ctx context.Context, key string) (Owner, error) {
	if project.CheckKey(key) != nil {
		return Owner{}, project.ErrUnknown
	}
	h := project.HashOf(tidemill.NewSecret(key))
	now := k.now()
	o, ok := k.known.Get(h)
	if ok && now.Before(o.until) {
		return o, nil
	}
	if until, no := k.unknown.Get(h); no && now.Before(until) {
		return Owner{}, project.ErrUnknown
	}
	seen := k.changes.Load()
	defer func() {
		if k.changes.Load() != seen { // what was just remembered may be of before
			k.known.Remove(h)
			k.unknown.Remove(h)
		}
	}()
	p, err := k.projects.ByKey(giveway.First(ctx), h)
	switch {
	case err == nil:
		o = Owner{Project: p, Tenant: p.ID.String(), until: now.Add(KeyLife)}
		k.known.Add(h, o)
		k.unknown.Remove(h)
		return o, nil
	case errors.Is(err, project.ErrUnknown):
		k.known.Remove(h)
		k.unknown.Add(h, now.Add(KeyUnknown))
		return Owner{}, project.ErrUnknown
	case ok && now.Before(o.until.Add(KeyInTrouble)):
		return o, nil
	}
	return Owner{}, err
}

// Forget forgets all keys, because the projects changed.
func (k *Keyring) Forget() {
	k.changes.Add(1)
	k.known.Purge()
	k.unknown.Purge()
}

// Refused notes a request that is refused for its key, and logs it. An address with many of
// them waits for a second, for as long as ctx goes on.
func (k *Keyring) Refused(ctx context.Context, from netip.Addr) {
	k.refusals.Refused(from)
	k.guesses.Wrong(ctx, from)
}

// Unknown is how many keys are remembered to be nobody's.
func (k *Keyring) Unknown() int { return k.unknown.Len() }

// Key is the ingest key that the header brings: x-api-key, a bearer token, or the user
// name of basic authentication, in this order. Empty: none.
func Key(r *http.Request) string {
	if k := r.Header["X-Api-Key"]; len(k) > 0 && k[0] != "" {
		return strings.TrimSpace(k[0])
	}
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	rest = strings.TrimSpace(rest)
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return rest
	case strings.EqualFold(scheme, "Basic"):
		if b, err := base64.StdEncoding.DecodeString(rest); err == nil {
			user, _, _ := strings.Cut(string(b), ":")
			return user
		}
	}
	return ""
}
