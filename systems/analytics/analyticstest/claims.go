package analyticstest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/analytics"
)

var claiming = []promise{
	{name: "A10 of a backlog what was acknowledged first claims first", reason: "the guard refuses the second, and not the first", holds: claimsOfABacklog},
	{name: "A10 what was acknowledged first claims first while the pipeline works", reason: "a browser sends one claim after the other", holds: claimsOneByOne},
	{name: "A10 claims of an outage are done in the order of acknowledgement", reason: "a person merged by mistake cannot be taken apart", holds: claimsOfAnOutage},
	{name: "A10 claims are done in order whenever an outage ends", reason: "of two that are kept, the first may fail as the last call of the outage", holds: claimsAsAnOutageEnds},
	{name: "A10 which events may merge an identified person is a setting", reason: "some must be able to, and others must never", holds: mergeIdentified},
}

// neighbours are two claims whose order matters: the first makes user b an identified person,
// which the second must not merge. In the other order b goes to c.
func neighbours(n int) [2]*tidemill.Message {
	return [2]*tidemill.Message{identify(fmt.Sprint("b", n), fmt.Sprint("a", n)), identify(fmt.Sprint("c", n), fmt.Sprint("b", n))}
}

// inOrder checks the persons of so many neighbours.
func (b *bench) inOrder(n int) {
	b.Helper()
	fused := 0
	for i := range n {
		if b.somebody(fmt.Sprint("b", i)).ID != derived(fmt.Sprint("b", i)) || b.somebody(fmt.Sprint("a", i)).ID != derived(fmt.Sprint("b", i)) ||
			b.somebody(fmt.Sprint("c", i)).ID != derived(fmt.Sprint("c", i)) {
			fused++
		}
	}
	if fused > 0 {
		b.Errorf("of %d pairs of users %d are one person", n, fused)
	}
	refused := map[string]bool{} // by user: a claim that is delivered again is refused again
	for _, w := range b.warnings("cannot_merge_already_identified") {
		refused[w.Distinct] = true
	}
	if got := len(refused); got != n {
		b.Errorf("%d merges were refused, want %d", got, n)
	}
}

// slowProjects delay each batch by its own time before it claims.
type slowProjects struct {
	project.Projects
	mu  sync.Mutex // guards rnd
	rnd *rand.Rand
}

func (p *slowProjects) Find(ctx context.Context, id uuid.UUID) (project.Project, error) {
	p.mu.Lock()
	d := time.Duration(p.rnd.IntN(20)) * time.Millisecond
	p.mu.Unlock()
	time.Sleep(d) // the answer takes so long
	return p.Projects.Find(ctx, id)
}

func manyLanes() analytics.Options {
	o := options()
	o.Lanes, o.Batch, o.InFlight = 4, 3, 60
	return o
}

func slow(p *analytics.Parts) {
	p.Projects = &slowProjects{Projects: p.Projects, rnd: rand.New(rand.NewPCG(1, 2))}
}

func claimsOfABacklog(b *bench) {
	const n = 30
	for i := range n {
		pair := neighbours(i)
		b.put(pair[0])
		for k := range i % 4 {
			b.put(entry("e", fmt.Sprint("other", k)))
		}
		b.put(pair[1])
	}
	b.processWith(manyLanes(), slow)
	b.inOrder(n)
}

func claimsOneByOne(b *bench) {
	const n = 30
	o := manyLanes()
	o.Age = time.Millisecond
	s := b.start(o, slow)
	for i := range n {
		for _, m := range neighbours(i) {
			b.put(m)
		}
		if i%5 == 0 {
			b.pass(time.Second) // in real time 10 ms
		}
	}
	b.drained()
	s.stop()
	b.inOrder(n)
}

func claimsOfAnOutage(b *bench) {
	const n = 12
	ps := &persons{}
	ps.merge.fail(-1, errOutage)
	s := b.start(manyLanes(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps; slow(p) })
	for i := range n {
		pair := neighbours(i)
		b.put(pair[0])
		if i == n/2 { // earlier ones are kept by now
			b.until("merges are kept", func() bool { return b.kept() > n/2 })
			ps.merge.heal()
		}
		b.put(pair[1])
	}
	b.drained()
	b.until("no merge is kept", func() bool { return b.kept() == 0 })
	s.stop()
	b.inOrder(n)
}

// claimsAsAnOutageEnds makes merges fail so often that the outage ends between two calls: of
// the kept claims, or of a kept one and a new one.
func claimsAsAnOutageEnds(b *bench) {
	const n = 4
	ps := &persons{}
	s := b.start(options(), func(p *analytics.Parts) { ps.Store, p.Persons = p.Persons, ps })
	for i := range n {
		pair := neighbours(i)
		ps.merge.fail(3+i/2, errOutage) // 3 tries, and then those of the kept ones
		if i%2 == 0 {
			b.put(pair[0], pair[1])
		} else {
			b.put(pair[0])
			b.drained()
			b.put(pair[1])
		}
		b.drained()
		b.until("no merge is kept", func() bool { return b.kept() == 0 })
	}
	s.stop()
	b.inOrder(n)
}

func mergeIdentified(b *bench) {
	for i, c := range []struct {
		setting analytics.MergeIdentified
		merges  string // which of identify, alias and force merge an identified user
	}{{"", "force"}, {analytics.MergeNever, ""}, {analytics.MergeByEvent, "force"}, {analytics.MergeAlways, "identify alias force"}} {
		o := options()
		o.MergeIdentified = c.setting
		name := func(s string) string { return fmt.Sprint(s, i) }
		merges := map[string]*tidemill.Message{"identify": identify(name("boss identify"), name("user identify")), "alias": alias(name("boss alias"), name("user alias")), "force": force(name("boss force"), name("user force"))}
		for how := range merges {
			b.put(identify(name("user "+how), name("anon "+how)))
		}
		b.processWith(o, nil)
		before := len(b.warnings("cannot_merge_already_identified"))
		for _, m := range merges {
			b.put(m)
		}
		b.processWith(o, nil)
		refused := 0
		for how := range merges {
			want := "user "
			if slices.Contains(strings.Fields(c.merges), how) {
				want = "boss "
			} else {
				refused++
			}
			for _, who := range []string{"anon ", "user "} {
				if got := b.somebody(name(who + how)).ID; got != derived(name(want+how)) {
					b.Errorf("setting %q: after %s, %s belongs to %v; want the person of %s", c.setting, how, who, got, want)
				}
			}
		}
		if n := len(b.warnings("cannot_merge_already_identified")) - before; n != refused {
			b.Errorf("setting %q: %d merges left a warning, want %d", c.setting, n, refused)
		}
	}
}
