package redisqueue

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// A hand-out whose jobs are spread over tenants and priorities costs Redis about a command a job. It
// was seven while each job had a turn of its own.
func TestAHandOutOfManyTenantsCostsFewCommands(t *testing.T) {
	b := newTable(t, redistest.Connect(t, testenv.Start(t, testenv.PrivateRedis).URL), Options{Shards: 1})
	calls := regexp.MustCompile(`calls=(\d+)`)
	commands := func() (n int) {
		t.Helper()
		text, err := b.client.Do(t.Context(), b.client.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(text, -1) {
			c, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			n += c
		}
		return n
	}
	for p := range uint8(3) {
		for i := range 4 {
			for tenant := range 50 {
				b.add(&tidemill.Message{ID: fmt.Sprintf("%d/%d/%d", p, tenant, i), To: "q", Priority: p, Tenant: strconv.Itoa(tenant), Payload: []byte("x")})
			}
		}
	}
	src := b.Open("q", queue.Options{})
	before := commands()
	got, next := map[uint8]int{}, map[string]int{}
	for _, m := range b.take(src, 210) {
		of := fmt.Sprintf("%d/%s", m.Priority, m.Tenant)
		if want := fmt.Sprintf("%s/%d", of, next[of]); m.ID != want {
			t.Fatalf("job %s was handed out, want %s", m.ID, want)
		}
		next[of]++
		got[m.Priority]++
	}
	if n := commands() - before; n > 300 {
		t.Errorf("210 jobs of 50 tenants and three priorities cost %d commands, want 300 at most", n)
	}
	for p, want := range map[uint8]int{0: 10, 1: 40, 2: 160} {
		if got[p] != want {
			t.Errorf("priority %d had %d jobs of 210, want %d by its weight", p, got[p], want)
		}
	}
}
