package plan

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// all are figures of a system that writes to a file or to servers.
var all = []Figures{
	{
		Size: 775, Rate: 42_637, CPU: []Cost{{Own, 32.7}}, RSS: 487, Limit: "the writer", QueueMax: "events.queue_max",
		Waits: Stored{At: File, Bytes: 796, Of: 573}, Kept: []Stored{{At: File, Bytes: 646, Of: 573}},
	},
	{
		Servers: []string{"redis", "postgres", "clickhouse"}, Size: 1100, Rate: 21_334, CPU: []Cost{{Own, 24.9}, {Redis, 26.6}, {PostgreSQL, 4.9}, {ClickHouse, 17.7}}, QueueMax: "events.queue_max",
		Waits: Stored{At: Redis, Bytes: 861, Of: 573}, Kept: []Stored{{At: ClickHouse, Bytes: 90, Of: 573}, {At: Redis, Bytes: 17.9, Days: 1}},
	},
}

// partners are those of one that delivers each event to partners.
var partners = []Figures{{
	Size: 503, Rate: 2520, CPU: []Cost{{Own, 380}}, PerPartner: true, Ingest: 104.3, Limit: "sending",
	Waits: Stored{At: File, Bytes: 2528, Of: 610}, Kept: []Stored{{At: File, Bytes: 2635, Of: 610, Days: 30}},
}}

// near says whether two numbers differ by less than a hundredth.
func near(a, b float64) bool { return math.Abs(a-b) <= math.Abs(b)/100 }

func need(t *testing.T, p *Plan, name string) Need {
	t.Helper()
	i := slices.IndexFunc(p.Needs, func(n Need) bool { return n.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s in %+v", name, p.Needs)
	}
	return p.Needs[i]
}

func TestAPlanIsWhatWasMeasuredTimesWhatIsAsked(t *testing.T) {
	p, err := Of(Asked{System: "analytics", Rate: 1000, Size: 573, Keep: 10 * 24 * time.Hour, Waiting: time.Hour}, all)
	if err != nil {
		t.Fatal(err)
	}
	process, file := need(t, p, "tidemill"), need(t, p, "file")
	if p.Instances != 1 || !near(process.Cores, 1000*32.7e-6/0.6) || process.Memory != 1<<30 {
		t.Errorf("the process needs %+v", process)
	}
	if !near(file.Daily, 1000*86400*646) || !near(file.Disk, 10*1000*86400*646+1000*3600*796) {
		t.Errorf("the file has %+v", file)
	}
	if len(p.Set) != 0 || !near(p.UpTo, 0.6*42_637) {
		t.Errorf("up to %f, with settings %q", p.UpTo, p.Set)
	}
}

func TestServersHaveTheirShareAndInstancesMayFail(t *testing.T) {
	p, err := Of(Asked{System: "analytics", Servers: []string{"clickhouse", "redis", "postgres"}, Rate: 20_000, Waiting: time.Hour}, all)
	if err != nil {
		t.Fatal(err)
	}
	if p.Instances != 2 || !near(need(t, p, "tidemill").Cores, 20_000*24.9e-6/0.6/2) || !near(need(t, p, "Redis").Cores, 20_000*26.6e-6/0.6) {
		t.Errorf("%d instances, %+v", p.Instances, p.Needs)
	}
	memory := (20_000*3600*861*1100./573 + 20_000*86_400*17.9) * 4 / 3
	if r := need(t, p, "Redis"); !near(r.Memory, memory) {
		t.Errorf("Redis has %f, want %f", r.Memory, memory)
	}
	if ch := need(t, p, "ClickHouse"); ch.Disk != 0 || ch.Daily == 0 {
		t.Errorf("without --keep ClickHouse has %+v, which grows", ch)
	}
	if len(p.Set) != 1 || !strings.Contains(p.Set[0], "reached after 8m20s") {
		t.Errorf("72 million would wait, and it says %q", p.Set)
	}
}

func TestEachPartnerIsADelivery(t *testing.T) {
	of := func(n int) float64 {
		p, err := Of(Asked{System: "delivery", Rate: 100, Partners: n}, partners)
		if err != nil {
			t.Fatal(err)
		}
		return need(t, p, "tidemill").Cores
	}
	if one, five := of(1), of(5); !near(five-one, 4*100*380e-6/0.6) {
		t.Errorf("one partner takes %f cores, five %f", one, five)
	}
}

func TestLargerEventsCostMoreAndSmallerOnesTheSame(t *testing.T) {
	of := func(size float64) *Plan {
		p, err := Of(Asked{System: "analytics", Rate: 100, Size: size}, all)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if a, b, c := of(100), of(775), of(7750); a.UpTo != b.UpTo || !near(b.UpTo, 10*c.UpTo) || !near(need(t, c, "tidemill").Cores, 10*need(t, a, "tidemill").Cores) {
		t.Errorf("up to %f, %f, %f", a.UpTo, b.UpTo, c.UpTo)
	}
}

func TestWhatCannotBeSaidIsRefused(t *testing.T) {
	servers := []string{"redis", "postgres", "clickhouse"}
	for _, c := range []struct {
		want string
		a    Asked
		of   []Figures
	}{
		{"nothing was measured of the system journal", Asked{System: "journal", Rate: 1}, nil},
		{"analytics on redis was not measured", Asked{System: "analytics", Servers: []string{"redis"}, Rate: 1}, all},
		{"in one file was not measured", Asked{System: "analytics", Rate: 1}, all[1:]},
		{"with --servers redis,postgres,clickhouse", Asked{System: "analytics", Rate: 50_000}, all},
		{"the limit is Redis, which uses one core", Asked{System: "analytics", Servers: servers, Rate: 100_000}, all},
		{"--rate", Asked{System: "analytics"}, all},
		{"--size", Asked{System: "analytics", Rate: 1, Size: 2 << 20}, all},
		{"--partners", Asked{System: "analytics", Rate: 1, Partners: 2}, all},
		{"--keep", Asked{System: "delivery", Rate: 1, Keep: time.Hour}, partners},
		{"not negative", Asked{System: "analytics", Rate: 1, Waiting: -time.Hour}, all},
	} {
		if p, err := Of(c.a, c.of); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v and %+v, want %q", c.a, err, p, c.want)
		}
	}
}
