package connect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/source/bullmqsource/bullmqtest"
)

// bullMQ is a queue of real BullMQ that a test has for itself, at the URL and the prefix of its Redis.
func bullMQ(t *testing.T, queue string) (raw, prefix string, peer *bullmqtest.Peer) {
	t.Helper()
	testenv.Need(t)
	raw, prefix = testenv.Redis(t), testenv.Name("bull")
	address, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	peer = bullmqtest.Start(t, "bullmq-six", address, prefix, queue)
	t.Cleanup(func() {
		_, _ = peer.Try("queue", "pause")
		_, _ = peer.Try("queue", "obliterate", map[string]any{"force": true})
	})
	return raw, prefix, peer
}

// withBullMQ is CRM that takes events from a queue of real BullMQ.
func withBullMQ(t *testing.T, more map[string]string) (*crmWorld, *bullmqtest.Peer) {
	t.Helper()
	raw, prefix, peer := bullMQ(t, "crm-events")
	settings := map[string]string{"TIDEMILL_CRM_BULLMQ_URL": raw, "TIDEMILL_CRM_BULLMQ_PREFIX": prefix}
	for name, value := range more {
		settings[name] = value
	}
	return newCRM(t, settings), peer
}

// A job that is no event is a dead letter; once its data is put right and it is retried from BullMQ,
// by a program or from a dashboard, its event is handled and its letter is gone.
func TestAJobThatIsRetriedFromBullMQ(t *testing.T) {
	w, peer := withBullMQ(t, nil)
	letters := func() int {
		_, body := w.ask("GET", "/api/v1/dead?pipeline=crm-bullmq", "", "")
		return strings.Count(body, `"cause"`)
	}
	type job struct{ ID, State string }
	state := func(id string) string { return bullmqtest.As[job](peer, peer.Do("job", id)).State }
	for i, by := range []struct {
		name  string
		retry func(id string)
	}{
		{"a program", func(id string) { peer.Do("job", id, "retry") }},
		{"a dashboard", func(id string) {
			answer := peer.Do("board", "put", "/api/queues/:queueName/:jobId/retry", map[string]any{"jobId": id})
			if !strings.Contains(string(answer), "204") {
				t.Errorf("the dashboard answers %s", answer)
			}
		}},
	} {
		t.Run(by.name, func(t *testing.T) {
			event := fmt.Sprint("retried-", i)
			id := bullmqtest.As[job](peer, peer.Do("queue", "add", "event", map[string]any{"id": event}, map[string]any{"attempts": 3})).ID
			until(t, "what is no event is no dead letter", func() bool { return letters() == 1 && state(id) == "failed" })
			by.retry(id) // nothing was put right
			until(t, "it did not die again", func() bool {
				return state(id) == "failed" && strings.Contains(string(peer.Do("job", id)), `"attemptsStarted":2`)
			})
			if n := letters(); n != 1 {
				t.Errorf("%d dead letters, want one", n)
			}
			peer.Do("job", id, "updateData", json.RawMessage(anEvent("club", event, "member.created", `{"address":{"city":"Bonn"}}`)))
			by.retry(id)
			w.becomes(event, "completed")
			until(t, "its job is not completed, or its letter still there", func() bool { return state(id) == "completed" && letters() == 0 })
		})
	}
	if code, body := w.ask("GET", "/api/v1/audit", "", ""); code != http.StatusOK || strings.Contains(body, `"balanced":false`) {
		t.Errorf("the books say %d %s", code, body)
	}
}
