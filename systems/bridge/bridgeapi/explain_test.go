package bridgeapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/answer/answertest"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/bridge"
)

const id = "1772366400000-7"

func embedded(state, fate string, acks bool, do func(*answertest.Stage)) answertest.Told {
	return answertest.Told{State: state, Fate: fate, Of: func(t *testing.T) (answer.Finder, string, string) {
		s := answertest.New(t)
		s.Adds(&tidemill.Message{ID: id, To: bridge.Name, Payload: []byte("secret")})
		do(s)
		return &Finder{Queues: s.Queues, Letters: s.Letters, Acks: acks, Lease: time.Minute, Now: s.Now}, "", id
	}}
}

func streamed(state string, acks bool, st Standing) answertest.Told {
	return answertest.Told{State: state, Fate: api.FateInFlight, Of: func(t *testing.T) (answer.Finder, string, string) {
		s := answertest.New(t)
		st.Added = s.Now()
		s.At = s.At.Add(time.Minute)
		return &Finder{Stream: func(context.Context, string) (*Standing, error) { return &st, nil }, Acks: acks, Lease: time.Minute, Now: s.Now}, "", id
	}}
}

// TestEachStateOfAnEntryIsExplained: the texts are what people read.
func TestEachStateOfAnEntryIsExplained(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 1, 12, 0, time.UTC)
	answertest.Tells(t, "testdata/explain.golden", []answertest.Told{
		embedded("queued", api.FateInFlight, true, func(*answertest.Stage) {}),
		embedded("waiting for its ack", api.FateInFlight, true, func(s *answertest.Stage) { s.Takes(bridge.Name) }),
		embedded("being published", api.FateInFlight, false, func(s *answertest.Stage) { s.Takes(bridge.Name) }),
		embedded("tried again later", api.FateInFlight, false, func(s *answertest.Stage) {
			s.Ends(bridge.Name, s.Takes(bridge.Name), tidemill.Settlement{End: tidemill.Again, After: 12 * time.Second, CountTry: true, Kind: tidemill.Partner, Cause: "refused"})
		}),
		embedded("ended", api.FateUnknown, true, func(s *answertest.Stage) {
			s.Ends(bridge.Name, s.Takes(bridge.Name), tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Delivered})
		}),
		embedded("given up", api.FateDead, true, func(s *answertest.Stage) { s.Dies(bridge.Name, s.Takes(bridge.Name), tidemill.Partner, "refused") }),
		embedded("replayed", api.FateInFlight, true, func(s *answertest.Stage) {
			s.Dies(bridge.Name, s.Takes(bridge.Name), tidemill.Partner, "refused")
			if n, err := s.Letters.Replay(s.Context(), deadletter.Filter{}); n != 1 || err != nil {
				s.Fatal(n, err)
			}
		}),
		streamed("unread in a stream", true, Standing{Unread: true}),
		streamed("published, without an ack", true, Standing{Consumer: "c1", Handed: 2, Idle: 20 * time.Second}),
		streamed("being published from a stream", false, Standing{Consumer: "c1", Handed: 1, Idle: time.Second}),
		streamed("delayed in a stream", true, Standing{Consumer: "c1", Handed: 3, Tries: 2, Cause: "refused", Due: at}),
	})
}

func TestAStreamThatIsAway(t *testing.T) {
	s := answertest.New(t)
	f := &Finder{Stream: func(context.Context, string) (*Standing, error) {
		return nil, &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("Redis is away")}
	}, Letters: s.Letters, Now: s.Now}
	s.Adds(&tidemill.Message{ID: id, To: bridge.Name})
	s.Dies(bridge.Name, s.Takes(bridge.Name), tidemill.Partner, "refused")
	x, err := f.Explain(t.Context(), "", id)
	if err != nil || len(x.Failed) != 1 || x.Failed[0].Why != "Redis is away" || x.Fate != api.FateDead {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestWhatIsFoundByItsID(t *testing.T) {
	s := answertest.New(t)
	f := &Finder{Queues: s.Queues, Letters: s.Letters, Now: s.Now}
	const odd = "a/b c𝄞"
	s.Adds(&tidemill.Message{ID: odd, To: bridge.Name})
	if got := answertest.Found(t, f, odd, ""); len(got) != 1 || got[0] != "stream: entry "+odd+" of " {
		t.Errorf("%q", got)
	}
	s.Dies(bridge.Name, s.Takes(bridge.Name), tidemill.Partner, "refused")
	if got := answertest.Found(t, f, odd, ""); len(got) != 2 || got[1] != "dead letters of entries: entry "+odd+" of " {
		t.Errorf("%q", got)
	}
	if got := answertest.Found(t, f, "none", ""); got != nil {
		t.Errorf("%q", got)
	}
}
