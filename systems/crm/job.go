package crm

import (
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

// Headers of later jobs of an event. An event's first job has none.
const (
	EventHeader   = "crm-event"  // the event's id, if the job has another name
	RequestHeader = "crm-replay" // the job's replay
)

// EventOf is the id of a job's event.
func EventOf(m *tidemill.Message) string {
	if id := m.Get(EventHeader); id != nil {
		return string(id)
	}
	return m.ID
}

// RequestOf is a job's replay; empty: none.
func RequestOf(m *tidemill.Message) string { return string(m.Get(RequestHeader)) }

// Names of an event's later jobs. The first is named as the event is.
const (
	retryPrefix  = "retry-"  // of a dead letter: retry-<seq>.<how often asked>-<event>
	replayPrefix = "replay-" // of a replay: replay-<event>~<request>
)

// retryName names the job of a replayed dead letter: one name each time it is asked for, so
// that a crash opens it once.
func retryName(event string, at tidemill.Mark) string {
	return retryPrefix + strconv.FormatUint(at.Lo, 10) + "." + strconv.FormatUint(at.Hi, 10) + "-" + event
}

// replayName names the job of an event for a replay: a request has one job for each event, and
// another request another.
func replayName(event, request string) string { return replayPrefix + event + "~" + request }

// eventNamed is the id of the event in a job's name. It may be wrong for an event whose own id
// looks like another job's name.
func eventNamed(job string) string {
	if rest, ok := strings.CutPrefix(job, retryPrefix); ok {
		if number, event, ok := strings.Cut(rest, "-"); ok && strings.Trim(number, "0123456789.") == "" && event != "" {
			return event
		}
	}
	if rest, ok := strings.CutPrefix(job, replayPrefix); ok {
		if at := strings.LastIndexByte(rest, '~'); at > 0 {
			return rest[:at]
		}
	}
	return job
}

// keyOf is the sync log's key of an event. A tenant has no slash.
func keyOf(tenant, id string) string { return tenant + "/" + id }
