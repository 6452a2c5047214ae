package bridgeconsole_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console"
	"github.com/tidemill/tidemill/serve/console/consoletest"
	"github.com/tidemill/tidemill/serve/console/page"
	"github.com/tidemill/tidemill/state/trail/tabletrail"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconsole"
)

// open is the page of a bridge that stands so.
func open(t *testing.T, base string, b *bridgeapi.Bridge, err *error) *consoletest.Browser {
	a := &bridgeapi.API{Status: func(context.Context) (bridgeapi.Bridge, error) { return *b, *err },
		Consumer: func(_ context.Context, name string) (c bridgeapi.Consumer, err error) {
			c = bridgeapi.Consumer{BridgeConsumer: bridgeapi.BridgeConsumer{Name: name, Pending: 1200, Idle: 75}, Entries: []bridgeapi.ConsumerEntry{{ID: b.Example, Idle: 80, Handed: 2}}}
			if strings.HasPrefix(name, "alive") {
				c.Held = 30
			}
			return c, nil
		},
		TakeOver: func(_ context.Context, name string) (int, error) {
			b.Consumers, b.Pending = []bridgeapi.BridgeConsumer{}, 0
			return 1200, nil
		}}
	return consoletest.New(t, admin.Parts{Trail: tabletrail.Memory(), Rooms: []admin.Room{{Does: a.Operations()}}}, console.Parts{Parts: page.Parts{Base: base}, Systems: []console.System{{Pages: bridgeconsole.Pages, Runs: true}}})
}

func filled(said string) *bridgeapi.Bridge {
	at := time.Now().Add(-time.Minute)
	return &bridgeapi.Bridge{State: "running", Stream: "events" + said, Topic: "out" + said, AckTopic: "acks" + said, DeadTopic: "dead" + said, Length: 12, Pending: 5, Delayed: 2, Oldest: &at,
		Consumers: []bridgeapi.BridgeConsumer{{Name: "one" + said, Pending: 5, Idle: 3}}, Published: 1200, Acknowledged: 1190, Refused: 4, Dead: 1, Unanswered: 3, Example: "1772366400000-7" + said}
}

func TestWhatHoldsOfAllPages(t *testing.T) {
	var none error
	consoletest.Holds(t, consoletest.Stage{
		Open: func(t *testing.T, said, base string) *consoletest.Browser {
			return open(t, base, filled(said), &none)
		},
		Pages: func(said string) []string {
			return []string{"/console/bridge", page.Address("bridge", "consumers", "one"+said, "take-over"), page.Address("bridge", "consumers", "alive"+said, "take-over")}
		}, Seen: 1, Forms: []string{"/console/bridge/consumers/one/take-over"}, Viewers: []string{"/console/bridge/consumers/one/take-over"},
	})
}

func TestThePageOfTheBridge(t *testing.T) {
	var err error
	b := filled("")
	w := open(t, "", b, &err)
	said := w.Page("/console/bridge")
	w.Has(said, "12 entries", "5: handed out, and not ended; 2 of them failed", "1,200 to out", "1,190 on acks", "4 negative", "3 were published three times or more", "1772366400000-7", "one 5 3 s", "Pause")
	if !strings.Contains(said, `href="/console/explain?id=1772366400000-7&amp;system=bridge"`) || !strings.Contains(said, `href="/console/pipelines/bridge/pause?back=%2Fconsole%2Fbridge"`) {
		t.Errorf("an entry or the pause has no page: %s", said)
	}
	b.State = "paused"
	w.Has(w.Page("/console/bridge"), "Resume")
	*b = bridgeapi.Bridge{State: "running", Consumers: []bridgeapi.BridgeConsumer{}}
	w.Has(w.Page("/console/bridge"), "Nothing is in the stream.", "tidemill bridge send", "the embedded one")
	w.Who.Rights = caller.All(caller.Viewer)
	if strings.Contains(w.Page("/console/bridge"), "/pause") {
		t.Error("a viewer is shown what admins may do")
	}
	w.Who = consoletest.Admin
	err = errors.New("the stream is away")
	w.Has(w.Page("/console/bridge"), "This part could not be read.", "the stream is away")
}

func TestWhatAConsumerHasIsTakenOver(t *testing.T) {
	var none error
	b := filled("")
	w := open(t, "", b, &none)
	const at = "/console/bridge/consumers/one/take-over"
	if said := w.Page("/console/bridge"); !strings.Contains(said, `href="`+at+`"`) {
		t.Errorf("it cannot be taken over: %s", said)
	}
	w.Has(w.Page(at), "Take over 1,200 entries of one?", "1 min ago", "published twice", "1772366400000-7 · idle for 1 min", "tidemill bridge take-over one", "POST /api/v1/bridge/consumers/one/take-over")
	if to := w.Confirm(at, nil); to != "/console/bridge?done=taken-over" || b.Pending != 0 {
		t.Errorf("it leads to %s, and %d are pending", to, b.Pending)
	}
	w.Has(w.Page("/console/bridge?done=taken-over"), "It is taken over", "Nobody reads the stream.", "Last changes", "ada: takeOverConsumer one")
	w.Has(w.Page("/console/bridge/consumers/alive/take-over"), "A process goes by this name", "for another 30 s")
	*b = *filled("")
	w.Who.Rights = caller.All(caller.Viewer)
	if strings.Contains(w.Page("/console/bridge"), at) {
		t.Error("a viewer is shown what operators may do")
	}
}
