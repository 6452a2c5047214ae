package ingest

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
)

const (
	keysKept     = 10_000           // of each sort, known and unknown: a few MB
	keyLife      = time.Minute      // a key taken away is refused after this
	keyUnknown   = 5 * time.Second  // a key just made works after this
	keyInTrouble = 10 * time.Minute // how long a known key outlives its life while projects cannot be asked
)

// keyring remembers whose keys are whose, so that a request asks nobody. Unknown keys
// have a cache of their own: a flood of them cannot push the known ones out.
type keyring struct {
	projects project.Projects
	now      func() time.Time
	known    *lru.Cache[project.Hash, owner]
	unknown  *lru.Cache[project.Hash, time.Time] // until when
}

// owner is the project of a key.
type owner struct {
	project project.Project
	tenant  string // the id as text
	until   time.Time
}

func newKeyring(p project.Projects, now func() time.Time) (*keyring, error) {
	known, err := lru.New[project.Hash, owner](keysKept)
	if err != nil {
		return nil, err
	}
	unknown, err := lru.New[project.Hash, time.Time](keysKept)
	if err != nil {
		return nil, err
	}
	return &keyring{projects: p, now: now, known: known, unknown: unknown}, nil
}

// find returns whose key it is: project.ErrUnknown if it is nobody's, another error if
// that cannot be said now.
func (k *keyring) find(ctx context.Context, key string) (owner, error) {
	if project.CheckKey(key) != nil {
		return owner{}, project.ErrUnknown
	}
	h := project.HashOf(tidemill.NewSecret(key))
	now := k.now()
	o, ok := k.known.Get(h)
	if ok && now.Before(o.until) {
		return o, nil
	}
	if until, no := k.unknown.Get(h); no && now.Before(until) {
		return owner{}, project.ErrUnknown
	}
	p, err := k.projects.ByKey(ctx, h)
	switch {
	case err == nil:
		o = owner{project: p, tenant: p.ID.String(), until: now.Add(keyLife)}
		k.known.Add(h, o)
		k.unknown.Remove(h)
		return o, nil
	case errors.Is(err, project.ErrUnknown):
		k.known.Remove(h)
		k.unknown.Add(h, now.Add(keyUnknown))
		return owner{}, project.ErrUnknown
	case ok && now.Before(o.until.Add(keyInTrouble)):
		return o, nil
	}
	return owner{}, err
}

// headerKey is the key that the header brings: x-api-key, a bearer token, or the user
// name of basic authentication, in this order. Empty: none.
func headerKey(r *http.Request) string {
	if k := r.Header.Get("X-Api-Key"); k != "" {
		return strings.TrimSpace(k)
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
