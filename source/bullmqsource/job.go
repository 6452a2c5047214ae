package bullmqsource

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// errReply is for a server whose answer differs from that of our scripts.
var errReply = errors.New("the answer is not what the script says")

// job is a job from a script's answer. Its texts point into the answer.
type job struct {
	id, options, timestamp, failure, deferred string
	name, data, priority, parent, dedup       []byte
	hand, tries, failed                       int64
}

func readJob(m rueidis.RedisMessage) (j job, err error) {
	f, err := m.ToArray()
	if err != nil || len(f) != 13 {
		return j, errors.Join(errReply, err)
	}
	var errs [4]error
	j.id, errs[0] = f[0].ToString()
	j.hand, errs[1] = f[1].AsInt64()
	j.tries, errs[2] = f[2].AsInt64()
	j.failed, errs[3] = f[12].AsInt64()
	if err := errors.Join(errs[:]...); err != nil {
		return j, err
	}
	j.name, j.data, j.priority, j.parent, j.dedup = text(&f[3]), text(&f[4]), text(&f[7]), text(&f[8]), text(&f[9])
	j.options, _ = f[5].ToString()
	j.timestamp, _ = f[6].ToString()
	j.failure, _ = f[10].ToString()
	j.deferred, _ = f[11].ToString()
	return j, nil
}

// text is the bytes of a string, without a copy, and without room to append.
func text(m *rueidis.RedisMessage) []byte {
	b, _ := m.AsBytes() // these are strings
	return b[:len(b):len(b)]
}

// message fills m, traced: with the job's trace. It points to the job's memory.
func (j *job) message(m *tidemill.Message, queue string, traced bool) {
	m.ID, m.Tenant, m.Type, m.To, m.Key, m.Payload = j.id, "", string(j.name), queue, nil, j.data
	m.Time, m.At = time.Time{}, time.Time{}
	if ms, err := strconv.ParseFloat(j.timestamp, 64); err == nil {
		m.Time = time.UnixMilli(int64(ms)).UTC()
	}
	m.Tries, m.Handed = int(j.tries), int(j.hand)
	m.Mark = j.mark()
	m.Header = m.Header[:0]
	m.Priority = 255
	if priority, err := strconv.Atoi(string(j.priority)); err == nil && priority > 0 {
		m.Priority = uint8(255 - min(priority, 255))
		m.Header = append(m.Header, tidemill.Field{Name: []byte(PriorityHeader), Value: j.priority})
	}
	for _, h := range []struct {
		name  string
		value []byte
	}{{OptionsHeader, []byte(j.options)}, {ParentHeader, j.parent}, {DeduplicationHeader, j.dedup}, {FailureHeader, []byte(j.failure)}} {
		if len(h.value) > 0 {
			m.Header = append(m.Header, tidemill.Field{Name: []byte(h.name), Value: h.value})
		}
	}
	if j.failed > 0 {
		m.Header = append(m.Header, tidemill.Field{Name: []byte(RetriedHeader), Value: strconv.AppendInt(nil, j.failed, 10)})
	}
	if traced {
		if t, ok := traceOf(j.options); ok {
			m.Header = t.Put(m.Header)
		}
	}
}

// mark is a job's position: its id, when it was added (an id may be used again once its job is
// removed) and how often it had failed for good. A job that is retried from BullMQ counts as
// another one where its death is remembered.
func (j *job) mark() tidemill.Mark {
	name := j.timestamp + " " + j.id
	if j.failed > 0 {
		name += " " + strconv.FormatInt(j.failed, 10)
	}
	sum := sha256.Sum256([]byte(name))
	return tidemill.Mark{Epoch: uint32(j.hand), Hi: binary.BigEndian.Uint64(sum[:8]), Lo: binary.BigEndian.Uint64(sum[8:16])}
}

// Retried says whether a message is a job that had failed for good, with a possible dead letter of
// its pipeline, and was retried from BullMQ since: Job.retry, Queue.retryJobs, the button of a
// dashboard.
func Retried(m *tidemill.Message) bool { return m.Get(RetriedHeader) != nil }
