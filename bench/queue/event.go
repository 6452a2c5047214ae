package queue

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// events draws events as producers send them, about 500 bytes of JSON each; the same for
// every contender.
type events struct {
	rng *rand.Rand
	n   int // of the next
}

func newEvents() *events { return &events{rng: rand.New(rand.NewPCG(1, 2))} }

// at is the time of the events.
var at = time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)

// next draws an event, as a job for a queue. Its last field is its number, for checks.
func (e *events) next(queue string) *tidemill.Message {
	var raw [48]byte
	for i := 0; i < len(raw); i += 8 {
		v := e.rng.Uint64()
		for j := range 8 {
			raw[i+j] = byte(v >> (8 * j))
		}
	}
	id, site := uuid.UUID(raw[:16]).String(), "shop-"+strconv.Itoa(e.rng.IntN(50))
	kind := []string{"page_view", "view_item", "add_to_cart", "purchase"}[e.rng.IntN(4)]
	m := &tidemill.Message{ID: id, To: queue, Tenant: site, Type: kind, Time: at.Add(time.Duration(e.n) * time.Millisecond)}
	m.Payload = fmt.Appendf(nil, `{"eventType":"%s","timestamp":"%s","siteId":"%s","eventId":"%s","sessionId":"s%d","userId":"%s",`+
		`"consent":{"gpc":false,"jurisdiction":"EU"},"context":{"page":{"url":"https://%s.example.com/products/%d?utm_source=newsletter"},`+
		`"device":{"type":"mobile","os":"iOS"},"geo":{"country":"DE","city":"Berlin"}},"properties":{"value":%d.%02d,"currency":"EUR"},"n":%d}`,
		kind, m.Time.Format("2006-01-02T15:04:05.000Z"), site, id, e.rng.IntN(1e9), hex.EncodeToString(raw[16:]),
		site, e.rng.IntN(1e5), e.rng.IntN(500), e.rng.IntN(100), e.n)
	e.n++
	return m
}

func (e *events) take(queue string, n int) []*tidemill.Message {
	all := make([]*tidemill.Message, n)
	for i := range all {
		all[i] = e.next(queue)
	}
	return all
}

// writeEvents writes events to a file, one a line, for contenders in other languages.
func writeEvents(name string, n int) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for e := newEvents(); e.n < n; {
		_, _ = w.Write(e.next("").Payload) // Flush returns the error
		_ = w.WriteByte('\n')
	}
	if err = w.Flush(); err == nil {
		err = f.Close()
	}
	return err
}
