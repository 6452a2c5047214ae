package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/figures"
)

// An audit reads what is held, which takes longer the more there is.
const (
	auditFresh  = time.Second
	auditOldest = time.Minute // of one that is kept, where reading takes long
	auditWithin = 30 * time.Second
	auditWait   = 1500 * time.Millisecond // for the first
)

// audited is the audit of a system.
type audited struct {
	report   operation.JSON[api.Audit]
	balanced bool
}

// newAudit is the last audit of a system, made while somebody asks for one that is kept.
func (a *API) newAudit(i int, s *standing) *figures.Latest[audited] {
	return &figures.Latest[audited]{Read: func(ctx context.Context) (audited, error) { return auditOf(ctx, &a.systems()[i]) },
		Fresh: auditFresh, Most: auditOldest, Good: auditOldest, Wait: auditWait, Within: auditWithin, In: &s.readings}
}

// auditOf audits a system.
func auditOf(ctx context.Context, s *System) (out audited, err error) {
	report, balanced, err := s.Audit(ctx)
	if err != nil {
		return out, err
	}
	out.report, err = json.Marshal(report)
	out.balanced = balanced
	return out, err
}

// audit proves the books of the systems that a request may look at, or shows the last proof.
func (a *API) audit(ctx context.Context, q *api.AuditOf) (api.Audits, error) {
	out := api.Audits{Balanced: true, AsOf: a.Now().UTC()}
	var names []string
	may, systems := sightOf(ctx), a.systems()
	for i := range systems {
		s := &systems[i]
		if !may.of(s.Name) {
			continue
		}
		names = append(names, s.Name)
		if q.System != "" && s.Name != q.System {
			continue
		}
		one, at, err := audited{}, out.AsOf, error(nil)
		if q.Kept {
			if one, at, err = a.standing.audits[i].Get(ctx); !at.IsZero() {
				err = nil // it has its time
			} else if err != nil {
				err = answer.Busy(err)
			}
		} else {
			one, err = auditOf(ctx, s)
		}
		if err != nil {
			return out, err
		}
		out.Systems, out.Balanced = append(out.Systems, one.report), out.Balanced && one.balanced
		if at.Before(out.AsOf) {
			out.AsOf = at.UTC()
		}
	}
	if len(out.Systems) == 0 {
		return out, operation.Refuse(http.StatusNotFound, "no system %q runs here; there is %s", q.System, answer.Named(q.System, names))
	}
	return out, nil
}
