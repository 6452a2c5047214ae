package crm

import (
	"slices"
	"strings"
)

// did is for whose sakes an event was handled so far: its own, which has no name, and
// those of the replays that asked for it. The sync log keeps it as the Result of the event's
// entry, whatever state that comes to: what was done for one stays done while the entry is
// begun again for another, and fails. A job that comes again, because its end got lost, is
// recognised by it.
type did []string

// mostDid is how many replays of one event are remembered, the newest; its own sake always is.
// A job would have to come again after so many others to be handled twice.
const mostDid = 16

// didOf reads what the sync log has kept; nothing, where nothing was done.
func didOf(result []byte) did {
	if len(result) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(result), "\n"), "\n")
}

// kept is how the sync log keeps it: a line for each.
func (d did) kept() []byte {
	if len(d) == 0 {
		return nil
	}
	return []byte(strings.Join(d, "\n") + "\n")
}

// has says whether a job's work is done. An event's own is when it was handled for anybody's
// sake: then it is COMPLETED.
func (d did) has(request string) bool {
	if request == "" {
		return len(d) > 0
	}
	return slices.Contains(d, request)
}

// with is that one more has its work done.
func (d did) with(request string) did {
	if slices.Contains(d, request) {
		return d
	}
	all := append(slices.Clone(d), request)
	if len(all)-1 > mostDid {
		i := slices.IndexFunc(all, func(r string) bool { return r != "" })
		all = slices.Delete(all, i, i+1)
	}
	return all
}
