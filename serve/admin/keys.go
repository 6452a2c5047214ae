package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/project"
)

// keyID names a key by the beginning of its hash.
func keyID(h project.Hash) string { return hex.EncodeToString(h[:8]) }

// shownKey is a key as the API shows it.
func (a *API) shownKey(h project.Hash) api.IngestKey {
	k := api.IngestKey{ID: keyID(h)}
	if a.Config != nil {
		for _, p := range a.Config().Projects {
			k.Configured = k.Configured || project.HashOf(p.Key) == h
		}
	}
	return k
}

func (a *API) keys(ctx context.Context, q *api.OneProject) (iter.Seq2[api.IngestKey, error], error) {
	id, err := a.Find(ctx, q.Project)
	if err != nil {
		return nil, err
	}
	all, err := a.Projects.Keys(ctx, id)
	return answer.Listed(all, func(h *project.Hash) api.IngestKey { return a.shownKey(*h) }), err
}

func (a *API) makeKey(ctx context.Context, q *api.OneProject) (out api.MadeKey, err error) {
	id, err := a.Find(ctx, q.Project)
	if err != nil {
		return out, err
	}
	p, err := a.Projects.Find(ctx, id)
	if err != nil {
		return out, err
	}
	key, err := project.NewKey(rand.Reader)
	if err != nil {
		return out, err
	}
	if err := a.Projects.Ensure(ctx, p, project.HashOf(key)); err != nil {
		return out, err
	}
	return api.MadeKey{IngestKey: a.shownKey(project.HashOf(key)), Secret: key.Reveal()}, nil
}

func (a *API) revokeKey(ctx context.Context, q *api.OneKey) (out api.IngestKey, err error) {
	id, err := a.Find(ctx, q.Project)
	if err != nil {
		return out, err
	}
	none := operation.Refuse(http.StatusNotFound, "project %q has no key %q: it was revoked, or it is another project's", q.Project, q.Key)
	all, err := a.Projects.Keys(ctx, id)
	if err != nil {
		return out, err
	}
	i := slices.IndexFunc(all, func(h project.Hash) bool { return keyID(h) == strings.ToLower(q.Key) })
	if i < 0 {
		return out, none
	}
	if out = a.shownKey(all[i]); out.Configured {
		return out, operation.Refuse(http.StatusConflict, "the configuration names this key, and the next start would bring it back: take it out there, start again, and revoke it then")
	}
	if err := a.Projects.Revoke(ctx, id, all[i]); errors.Is(err, project.ErrUnknown) {
		return out, none
	} else if err != nil {
		return out, err
	}
	// Logged when somebody revoked a key; `key` is its public id.
	a.Log.InfoContext(ctx, "ingest key revoked by hand", "project", id, "key", out.ID)
	return out, nil
}
