package crm

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/profile"
)

// members is how many people the events are about, in clubs of as many each.
const (
	members = 20_000
	clubs   = 50
)

// events draws events as a club's software sends them, about 500 bytes of JSON each; the
// same for every contender.
type events struct {
	rng *rand.Rand
	n   int // of the next
}

func newEvents() *events { return &events{rng: rand.New(rand.NewPCG(1, 2))} }

// at is the time of the events.
var at = time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)

// types of events: some of each priority.
var types = []string{"member.updated", "booking.created", "player.checkedin", "email.opened", "contactPreference.updated"}

// drawn is an event, with the values for those who put it into tables by themselves.
type drawn struct {
	id, tenant, typ string
	raw             []byte
}

// member is one of all, with the club.
func member(n int) (tenant string, who profile.Identities) {
	name := strconv.Itoa(n)
	return "club-" + strconv.Itoa(n%clubs), profile.Identities{External: "m-" + name, Email: "member." + name + "@example.com"}
}

// next draws an event. Its last field is its number, for checks.
func (e *events) next() drawn {
	var raw [48]byte
	for i := 0; i < len(raw); i += 8 {
		v := e.rng.Uint64()
		for j := range 8 {
			raw[i+j] = byte(v >> (8 * j))
		}
	}
	tenant, who := member(e.rng.IntN(members))
	one := drawn{id: uuid.UUID(raw[:16]).String(), tenant: tenant, typ: types[e.rng.IntN(len(types))]}
	one.raw = fmt.Appendf(nil, `{"id":"%s","type":"%s","tenantId":"%s","identity":{"externalId":"%s","email":"%s"},"occurredAt":"%s",`+
		`"payload":{"firstName":"Ann","lastName":"Example","address":{"street":"Sample Street %d","zip":"%05d","city":"Berlin","country":"DE"},`+
		`"preferences":{"newsletter":true,"language":"de"},"session":"%s","points":%d},"n":%d}`,
		one.id, one.typ, one.tenant, who.External, who.Email, at.Add(time.Duration(e.n)*time.Millisecond).Format("2006-01-02T15:04:05.000Z"),
		e.rng.IntN(200), e.rng.IntN(1e5), hex.EncodeToString(raw[16:]), e.rng.IntN(1000), e.n)
	e.n++
	return one
}

func (e *events) take(n int) []drawn {
	all := make([]drawn, n)
	for i := range all {
		all[i] = e.next()
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
		_, _ = w.Write(e.next().raw) // Flush returns the error
		_ = w.WriteByte('\n')
	}
	if err = w.Flush(); err == nil {
		err = f.Close()
	}
	return err
}
