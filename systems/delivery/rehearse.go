package delivery

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

// Rehearsed is what would become of an event.
type Rehearsed struct {
	Skip     string // NoRoute or NoConsent: it goes to no partner; empty: to some
	Partners []Part // of all partners, in the order of the configuration
}

// Part is what would become of an event at one partner.
type Part struct {
	Partner string
	Fate    tidemill.Fate // Delivered: the request would be made; None: it would be tried again
	Why     string        // of another fate
	Request *partner.Request
}

// Rehearse says what would become of an accepted event: which partners get it, and by what requests.
// Nothing is sent, and nothing is kept. Its error is that the event cannot be read.
func (s *System) Rehearse(m *tidemill.Message) (*Rehearsed, error) {
	e, err := partner.ReadEvent(m, m.ID)
	if err != nil {
		return nil, err
	}
	out, to := &Rehearsed{}, 0
	wanted := s.match(m.Tenant, e, saidGPC(m), func(*target, error) { to++ })
	switch {
	case to > 0:
	case wanted:
		out.Skip = NoConsent
	default:
		out.Skip = NoRoute
	}
	for _, t := range s.now().targets {
		trial, _, err := s.try(t, m)
		if err != nil {
			return nil, err
		}
		p := Part{Partner: t.Name, Fate: tidemill.Delivered}
		switch {
		case trial.Skip != "":
			p.Fate, p.Why = tidemill.Skipped, trial.Skip
		case trial.Failed != nil:
			p.failed(trial.Failed)
		case trial.Refused != nil:
			p.failed(trial.Refused)
		default:
			p.Request = trial.Request
		}
		out.Partners = append(out.Partners, p)
	}
	return out, nil
}

// failed says what the rules make of a failure.
func (p *Part) failed(err error) {
	p.Fate, p.Why = rules.Fate(tidemill.KindOf(err)), err.Error()
}
