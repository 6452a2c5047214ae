package crm

import (
	"slices"
	"strings"
)

// did lists for whom an event was handled so far: for itself, which has no name, and for
// replays that asked for it. The sync log keeps it as the Result of the event's entry, in any
// state: work done for one stays done while the entry is begun again for another, and fails. A
// job that comes again because its end got lost is recognised by it.
type did []string

// mostDid is how many replays of one event are remembered, the newest ones; the event itself
// always is. A job would have to come again after so many others to be handled twice.
const mostDid = 16

// didOf reads what the sync log has kept; nil if nothing was done.
func didOf(result []byte) did {
	if len(result) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(result), "\n"), "\n")
}

// kept is the form that the sync log keeps: a line for each.
func (d did) kept() []byte {
	if len(d) == 0 {
		return nil
	}
	return []byte(strings.Join(d, "\n") + "\n")
}

// has reports whether a job's work is done. The event's own is done once it was handled for
// any: then it is COMPLETED.
func (d did) has(request string) bool {
	if request == "" {
		return len(d) > 0
	}
	return slices.Contains(d, request)
}

// with adds one whose work is done.
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
