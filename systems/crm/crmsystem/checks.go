package crmsystem

import (
	"context"
	"fmt"

	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
)

// findings are what an operator of CRM may want to know of before it hurts.
func (w *wiring) findings(ctx context.Context, sys *crm.System, s *stores) []preflight.Finding {
	c := crmconfig.Of(w.InForce())
	fs := []preflight.Finding{checkHandlers(c), checkTenants(c)}
	if s.damaged != nil {
		fs = append(fs, system.CheckDamaged(ctx, s.damaged))
	}
	st, err := sys.Look(ctx)
	if err != nil {
		return append(fs, system.Finding("CRM queue", preflight.Fail, err.Error(), "is its server up? events are answered 503 until it is"))
	}
	switch jobs := fmt.Sprintf("%d waiting, %d put off", st.Jobs.Waiting, st.Jobs.Delayed); {
	case st.Closed:
		fs = append(fs, system.Finding("CRM queue", preflight.Warn, "it is being drained and takes no new events; "+jobs, "tidemill queue resume "+crm.Queue))
	case st.Paused:
		fs = append(fs, system.Finding("CRM queue", preflight.Warn, "paused; "+jobs, "tidemill queue resume "+crm.Queue))
	default:
		fs = append(fs, system.Finding("CRM queue", preflight.OK, jobs, ""))
	}
	switch {
	case st.Dead > 0 && st.Dead >= c.DeadMax/5*4:
		fs = append(fs, system.Finding("CRM dead letters", preflight.Fail, fmt.Sprintf("%d of %d: when full, the queue waits", st.Dead, c.DeadMax), "replay or delete them: tidemill dead list --pipeline "+crm.Queue))
	case st.Dead > 0:
		fs = append(fs, system.Finding("CRM dead letters", preflight.Warn, fmt.Sprintf("%d, each deleted %v after it died", st.Dead, c.DeadLife), "look at them: tidemill dead list --pipeline "+crm.Queue))
	default:
		fs = append(fs, system.Finding("CRM dead letters", preflight.OK, "none", ""))
	}
	return fs
}

// aloneOnRedis is said where instances could share the queue, and do not share what events
// were done.
func aloneOnRedis() preflight.Finding {
	return system.Finding("CRM sync log", preflight.Warn, "the queue is on a Redis, sync log and profiles are in this machine's embedded database: what one instance has done another does not know",
		"run one instance, or set postgres.url (or crm.postgres_url)")
}

func checkHandlers(c *crmconfig.Settings) preflight.Finding {
	const check = "CRM handlers"
	plain := 0
	for i := range c.Handlers {
		if e := c.Handlers[i].Endpoint; e != nil && e.AllowHTTP {
			plain++
		}
	}
	switch n := len(c.Handlers); {
	case n == 0 && c.Unknown == "skip":
		return system.Finding(check, preflight.Warn, "none: every event is taken in, skipped and counted", "say in crm.handlers what to do with them; a replay handles those of before")
	case n == 0:
		return system.Finding(check, preflight.Warn, "none: every event becomes a dead letter", "say in crm.handlers what to do with them, then replay the dead letters")
	case plain > 0:
		return system.Finding(check, preflight.Warn, fmt.Sprintf("%d of %d may send events unencrypted (allowHttp)", plain, n), "use https, but for endpoints on this machine")
	default:
		return system.Finding(check, preflight.OK, fmt.Sprintf("%d", n), "")
	}
}

func checkTenants(c *crmconfig.Settings) preflight.Finding {
	const check = "CRM keys"
	for i := range c.Tenants {
		for _, k := range c.Tenants[i].Keys {
			if len(k.Reveal()) < 16 {
				return system.Finding(check, preflight.Warn, fmt.Sprintf("a key of tenant %s has fewer than 16 characters", c.Tenants[i].ID), "take a long random one where others can reach the address")
			}
		}
	}
	if len(c.Tenants) == 0 {
		return system.Finding(check, preflight.OK, "those of the projects, kept as hashes: a project's name is its tenant's id", "")
	}
	return system.Finding(check, preflight.OK, fmt.Sprintf("of %d tenants, kept as hashes", len(c.Tenants)), "")
}
