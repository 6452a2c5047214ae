package redissource

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
)

// Standing is where an entry of the stream stands with the group.
type Standing struct {
	ID       string
	Added    time.Time     // by its id: when it was added, where Redis gave the id
	Unread   bool          // no consumer has it yet
	Consumer string        // that has it; empty: none
	Idle     time.Duration // since it was handed out, or its lease was renewed
	Handed   int           // hand-outs
	Tries    int           // that failed
	Cause    string        // of the last one, after its kind
	Due      time.Time     // it is not handed out again before; zero: it is not delayed
}

// Find says where an entry stands: kind not_found where the stream does not have it (any more), or
// the id is none of an entry. It changes nothing, and asks for one entry alone.
func (s *Source) Find(ctx context.Context, id string) (*Standing, error) {
	if _, ok := canonical(id); !ok {
		return nil, tidemill.Fail(tidemill.NotFound, "find %q in stream %q: an entry's id is two numbers with a hyphen between", id, s.o.Stream)
	}
	b := s.client.B
	got := s.client.DoMulti(ctx,
		b().Xrange().Key(s.keys.stream).Start(id).End(id).Count(1).Build(),
		b().Xpending().Key(s.keys.stream).Group(s.o.Group).Start(id).End(id).Count(1).Build(),
		b().Hget().Key(s.keys.again).Field(id).Build(),
		b().Zscore().Key(s.keys.due).Member(id).Build())
	entries, err := got[0].ToArray()
	if err != nil {
		return nil, redisconn.Error(err, "find an entry of stream %q", s.o.Stream)
	}
	if len(entries) == 0 {
		return nil, tidemill.Fail(tidemill.NotFound, "stream %q has no entry %s", s.o.Stream, id)
	}
	st := &Standing{ID: id, Added: addedAt(id), Unread: true}
	pending, err := got[1].ToArray()
	if err != nil && !lostGroup(err) {
		return nil, redisconn.Error(err, "find an entry of group %q of stream %q", s.o.Group, s.o.Stream)
	}
	for _, m := range pending {
		row, err := m.ToArray()
		if err != nil || len(row) < 4 {
			return nil, redisconn.Error(fmt.Errorf("an answer of %d parts: %w", len(row), err), "find an entry of stream %q", s.o.Stream)
		}
		st.Unread = false
		st.Consumer, _ = row[1].ToString()
		idle, _ := row[2].AsInt64()
		handed, _ := row[3].AsInt64()
		st.Idle, st.Handed = time.Duration(idle)*time.Millisecond, int(handed)
	}
	return st, s.failures(got[2], got[3], st)
}

// failures reads how often the entry failed, and when it comes back.
func (s *Source) failures(again, due rueidis.RedisResult, st *Standing) error {
	text, err := again.ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return redisconn.Error(err, "find the failures of an entry of stream %q", s.o.Stream)
	}
	tries, cause, _ := strings.Cut(text, " ")
	st.Tries, _ = strconv.Atoi(tries)
	st.Cause = cause
	at, err := due.AsFloat64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return redisconn.Error(err, "find when an entry of stream %q is due", s.o.Stream)
	}
	if err == nil {
		st.Due = time.UnixMilli(int64(at)).UTC()
	}
	return nil
}
