package deadletter

import (
	"bytes"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
)

// Name of the dead letter.
func (l *Letter) Name() Name { return Name{l.Pipeline, l.Tenant, l.ID} }

// NotFound is the error for a name without a dead letter: ErrNotFound with kind not_found.
func NotFound(n Name) error { return refuse(tidemill.NotFound, n, ErrNotFound) }

func refuse(k tidemill.Kind, n Name, why error) error {
	return tidemill.Fail(k, "dead letter %q of tenant %q, pipeline %q: %w", n.ID, n.Tenant, n.Pipeline, why)
}

// Version of the dead letter: another payload gives it another one. What is not edited, like its
// history, is no part of it.
func (l *Letter) Version() string {
	return wire.Fingerprint([]byte(l.Pipeline), []byte(l.Tenant), []byte(l.ID), l.Payload)
}

// Edit replaces the payload, if the record has the version that was seen (empty: whatever it has),
// and says whether that changed anything. A row that equals the payload, because nothing else is
// known, goes on to equal it.
func (r *Record) Edit(payload []byte, seen string, now time.Time) (changed bool, err error) {
	switch {
	case r.Damaged != "":
		return false, refuse(tidemill.Validation, r.Name(), ErrDamaged)
	case r.State == Replaying:
		return false, refuse(tidemill.Transient, r.Name(), ErrReplaying)
	case bytes.Equal(r.Payload, payload):
		return false, nil
	case seen != "" && seen != r.Version():
		return false, refuse(tidemill.Transient, r.Name(), ErrChanged)
	}
	if r.Edited.IsZero() {
		r.Original = r.Payload
	}
	payload = bytes.Clone(payload)
	if r.Row != nil && bytes.Equal(r.Row, r.Payload) {
		r.Row = bytes.Clone(payload)
	}
	r.Payload, r.Edited = payload, Instant(now)
	return true, nil
}
