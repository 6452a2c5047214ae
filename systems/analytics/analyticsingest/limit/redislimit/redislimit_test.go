package redislimit_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest/limit/redislimit"
)

// bench is a project whose clock stands still until it is moved.
type bench struct {
	*testing.T
	client  rueidis.Client
	project uuid.UUID
	now     time.Time
}

func on(t *testing.T, run func(b *bench)) {
	redistest.Each(t, func(t *testing.T, client rueidis.Client) { run(newBench(t, client)) })
}

// newBench begins ten seconds that are now, whole.
func newBench(t *testing.T, client rueidis.Client) *bench {
	t.Helper()
	return &bench{t, client, uuid.New(), time.Now().UTC().Truncate(10 * time.Second)}
}

func (b *bench) meter(o redislimit.Options) *redislimit.Meter {
	b.Helper()
	o.Now = func() time.Time { return b.now }
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	m, err := redislimit.New(b.client, o)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (b *bench) admit(m *redislimit.Meter, events int, billed bool, want analyticsingest.Admission) {
	b.Helper()
	if got, err := m.Admit(b.Context(), b.project, events, billed); err != nil || got != want {
		b.Errorf("Admit %d: %d, %v; want %d", events, got, err, want)
	}
}

func (b *bench) do(command ...string) rueidis.RedisResult {
	b.Helper()
	ctx := context.WithoutCancel(b.Context())
	r := b.client.Do(ctx, b.client.B().Arbitrary(command[0]).Keys(command[1]).Args(command[2:]...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		b.Fatalf("%q: %v", command, err)
	}
	return r
}

func (b *bench) rate() string {
	n, _ := b.do("GET", "ratelimit:"+b.project.String()+":"+unix(b.now)).ToString()
	return n
}

func TestTheRateIsCountedByAllInstances(t *testing.T) {
	on(t, func(b *bench) {
		m, n := b.meter(redislimit.Options{Rate: 100}), b.meter(redislimit.Options{Rate: 100})
		pass := func(d time.Duration) { b.now = b.now.Add(d) }
		b.admit(m, 60, true, analyticsingest.Admitted)
		if got := b.rate(); got != "60" {
			b.Errorf("the counter is %q, want 60", got)
		}
		if ttl, err := b.do("TTL", "ratelimit:"+b.project.String()+":"+unix(b.now)).AsInt64(); err != nil || ttl > 70 || ttl < 60 {
			b.Errorf("it lives for %d s, %v; want 70", ttl, err)
		}
		b.admit(n, 39, true, analyticsingest.Admitted)
		b.admit(n, 500, true, analyticsingest.Admitted) // the sum was below before it
		b.admit(n, 1, true, analyticsingest.Limited)
		pass(time.Second)
		b.admit(n, 1, true, analyticsingest.Limited) // and now it is told
		b.admit(m, 1, true, analyticsingest.Limited)
		pass(time.Second)
		b.admit(m, 1, true, analyticsingest.Limited) // it takes back what it counted as it asked
		if got := b.rate(); got != "599" {
			b.Errorf("the counter is %q, want 599: what is refused does not count", got)
		}
		pass(57 * time.Second)
		b.admit(m, 1, true, analyticsingest.Limited) // 59 s: the first bucket still counts
		pass(time.Second)
		b.admit(m, 1, true, analyticsingest.Admitted)
		b.admit(n, 98, true, analyticsingest.Admitted)
		pass(2 * time.Second)
		b.admit(m, 1, true, analyticsingest.Admitted)
		pass(2 * time.Second)
		b.admit(n, 1, true, analyticsingest.Limited)
	})
}

func TestWhatAnInstanceLetInTooMuchIsTakenBack(t *testing.T) {
	on(t, func(b *bench) {
		m, n := b.meter(redislimit.Options{Rate: 100}), b.meter(redislimit.Options{Rate: 100})
		b.admit(m, 1, true, analyticsingest.Admitted)
		b.admit(n, 100, true, analyticsingest.Admitted)
		b.now = b.now.Add(time.Second)
		b.admit(m, 7, true, analyticsingest.Limited) // it counted itself as it asked
		b.now = b.now.Add(time.Second)
		b.admit(m, 7, true, analyticsingest.Limited)
		if got := b.rate(); got != "101" {
			b.Errorf("the counter is %q, want 101", got)
		}
	})
}

func TestQuota(t *testing.T) {
	on(t, func(b *bench) {
		m, n := b.meter(redislimit.Options{Quota: 10}), b.meter(redislimit.Options{})
		month := b.now.Format("2006-01")
		key := "billing:events:" + b.project.String() + ":" + month
		b.Cleanup(func() { b.do("DEL", key); b.do("SREM", "billing:quota_limited", b.project.String()) })
		bill := func(m *redislimit.Meter, events int) {
			b.Helper()
			if err := m.Bill(b.Context(), b.project, events); err != nil {
				b.Fatal(err)
			}
		}
		b.admit(m, 1, true, analyticsingest.Admitted)
		bill(m, 6)
		bill(n, 4)
		total, err := b.do("GET", key).ToString()
		at, aerr := b.do("PEXPIRETIME", key).AsInt64()
		first := time.Date(b.now.Year(), b.now.Month()+1, 6, 0, 0, 0, 0, time.UTC)
		if total != "10" || err != nil || aerr != nil || !time.UnixMilli(at).Equal(first) {
			b.Errorf("%s is %q until %v, %v, %v; want 10 until %v", key, total, time.UnixMilli(at).UTC(), err, aerr, first)
		}
		b.now = b.now.Add(time.Second)
		b.admit(m, 1, true, analyticsingest.OverQuota)
		b.admit(m, 1, false, analyticsingest.Admitted) // not billed
		b.admit(n, 1, true, analyticsingest.Admitted)  // has no quota of its own
		b.do("SADD", "billing:quota_limited", b.project.String())
		b.now = b.now.Add(time.Second)
		b.admit(n, 1, true, analyticsingest.OverQuota)
		b.do("SREM", "billing:quota_limited", b.project.String())
		b.now = b.now.Add(time.Second)
		b.admit(n, 1, true, analyticsingest.Admitted)
		b.now = time.Date(b.now.Year(), b.now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		b.admit(m, 1, true, analyticsingest.Admitted) // another month
	})
}

func TestARedisThatIsAwayKeepsNobodyOut(t *testing.T) {
	server := testenv.Start(t, testenv.PrivateRedis)
	link := testenv.NewLink(t, server.Addr)
	b := newBench(t, redistest.Connect(t, "redis://"+link.Addr))
	m := b.meter(redislimit.Options{Rate: 100, Quota: 1000, Timeout: 100 * time.Millisecond})
	for name, cut := range map[string]func(){"refused": link.Refuse, "silent": link.BlackHole} {
		b.project = uuid.New()
		b.admit(m, 1, true, analyticsingest.Admitted)
		cut()
		for range 3 {
			b.now = b.now.Add(time.Second)
			b.admit(m, 33, true, analyticsingest.Admitted)
			if err := m.Bill(t.Context(), b.project, 33); err != nil {
				t.Errorf("%s: Bill: %v", name, err)
			}
		}
		b.admit(m, 1, true, analyticsingest.Limited) // counted alone
		link.Heal()
		other := newBench(t, redistest.Connect(t, server.URL))
		for owed := true; owed; { // until the client has connected again
			b.now = b.now.Add(time.Second)
			_, _ = m.Admit(t.Context(), b.project, 0, true)
			n, _ := other.do("GET", "billing:events:"+b.project.String()+":"+b.now.Format("2006-01")).AsInt64()
			owed = n < 33 // at least what was not on its way
		}
	}
}

// unix is the start of the ten seconds of an instant.
func unix(t time.Time) string { return strconv.FormatInt(t.Truncate(10*time.Second).Unix(), 10) }
