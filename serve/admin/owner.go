package admin

import (
	"slices"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
)

// Owner says which dead letters and queues are a system's, whether it runs here or not.
type Owner struct {
	System string
	Owns   func(pipeline string) bool                        // beside the pipelines that run; nil: none
	Label  func(l *deadletter.Letter, shown *api.DeadLetter) // says whose a letter is beside its project or site, or its tenant instead; nil: nothing

	// Partners are the names of those that it delivers to; nil: it has none.
	Partners func(*config.Loaded) []string
	Queue    func(partner string) string  // which has a partner's jobs and letters
	Partner  func(pipeline string) string // whose it is; empty: no partner's
}

// ownerOf is whose letters those of a pipeline are, if that can be told by its name; else nil.
func (a *API) ownerOf(pipeline string) *Owner {
	for i := range a.Owners {
		if o := &a.Owners[i]; o.Owns != nil && o.Owns(pipeline) {
			return o
		}
	}
	return nil
}

// owns says whether a pipeline, or a queue that has its letters, is a system's.
func (a *API) owns(system, pipeline string) bool {
	if o := a.ownerOf(pipeline); o != nil && o.System == system {
		return true
	}
	return slices.ContainsFunc(a.systems(), func(s System) bool { return s.Name == system && s.runs(pipeline) })
}

// runs says whether a pipeline is one of the system's.
func (s *System) runs(pipeline string) bool {
	return slices.ContainsFunc(s.Pipelines, func(e *flow.Engine) bool { return e.Name() == pipeline })
}

// systemOf is the system that a pipeline, or a queue that has its dead letters, is of; empty: not known.
func (a *API) systemOf(pipeline string) string {
	if o := a.ownerOf(pipeline); o != nil {
		return o.System
	}
	for _, s := range a.systems() {
		if s.runs(pipeline) {
			return s.Name
		}
	}
	return ""
}

// partnerOf is whose pipeline it is; empty: no partner's.
func (a *API) partnerOf(pipeline string) string {
	if o := a.ownerOf(pipeline); o != nil && o.Partner != nil {
		return o.Partner(pipeline)
	}
	return ""
}

// queueOf is the queue of a partner; empty: no system has partners.
func (a *API) queueOf(partner string) string {
	for _, o := range a.Owners {
		if o.Queue != nil {
			return o.Queue(partner)
		}
	}
	return ""
}

// partnerNames are those of the partners that are configured; none where that is not known.
func (a *API) partnerNames() (names []string) {
	for _, o := range a.Owners {
		if o.Partners != nil && a.Config != nil {
			names = append(names, o.Partners(a.Config())...)
		}
	}
	return names
}
