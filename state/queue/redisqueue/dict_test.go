package redisqueue

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/queue"
)

// Redis loses all it has, or a dictionary alone comes back as another one: whatever is taken
// in afterwards can be read by everybody.
func TestADictionaryThatIsLost(t *testing.T) {
	for name, shards := range map[string]int{"one shard": 1, "three shards": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTable(t, redistest.Connect(t, testenv.Redis(t)), Options{plain: -1, Shards: shards})
			process := func() *table {
				s, err := New(b.client, b.o)
				if err != nil {
					t.Fatal(err)
				}
				return &table{t, s}
			}
			rng := rand.New(rand.NewPCG(7, 8))
			sent := map[string][]byte{}
			some := func(n int, queue string) (all []*tidemill.Message) {
				for range n {
					id, payload := event(rng)
					sent[id] = payload
					all = append(all, &tidemill.Message{ID: id, To: queue, Payload: payload})
				}
				return all
			}
			ways := map[string]func(*table){
				"added": func(b *table) { b.add(some(100, "q")...) },
				"forwarded": func(b *table) {
					src := b.Open("from", queue.Options{})
					b.add(&tidemill.Message{ID: "parent", To: "from"})
					e := []tidemill.Settlement{delivered(b.take(src, 1)[0])}
					e[0].Next = some(20, "q")
					if err := src.Settle(t.Context(), e); err != nil || e[0].Outcome != tidemill.Applied {
						t.Fatal(err, e[0].Outcome)
					}
				},
				"edited": func(b *table) {
					_, payload := event(rng)
					b.add(&tidemill.Message{ID: "edit", To: "q"})
					if err := b.Edit(t.Context(), queue.Name{Queue: "q", ID: "edit"}, payload, ""); err != nil {
						t.Fatal(err)
					}
					sent["edit"] = payload
				},
			}
			if shards == 1 {
				ways["beside"] = func(b *table) {
					beside := b.Beside(redisconn.Part{Lua: counting, Keys: []string{b.tags[0] + "counts"}, Args: func() []string { return []string{"no"} }})
					for _, m := range some(20, "q") {
						if ok, err := beside.Add(t.Context(), []string{m.ID}, []string{"1"}, []*tidemill.Message{m}); !ok || err != nil {
							t.Fatal(ok, err)
						}
					}
				}
			}
			for way, bring := range ways {
				for _, anew := range []bool{false, true} {
					b := process()
					b.wipe()
					b.add(some(200*shards, "q")...)
					if b.dict(0, "q").words == nil {
						t.Fatal("there is no dictionary")
					}
					reader := process()
					for range reader.List(t.Context(), queue.Filter{Queue: "q"}) {
					}
					b.wipe()
					clear(sent)
					if anew {
						process().add(some(300*shards, "q")...)
					}
					bring(b)
					for of, r := range map[string]*table{"one who knew the old one": reader, "another": process()} {
						n := 0
						for j, err := range r.List(t.Context(), queue.Filter{Queue: "q"}) {
							if err != nil {
								t.Fatalf("%s: %s reads: %v", way, of, err)
							}
							if n++; !bytes.Equal(j.Payload, sent[j.ID]) {
								t.Fatalf("%s: %s reads job %s as %q; want %q", way, of, j.ID, j.Payload, sent[j.ID])
							}
						}
						if n < len(sent) {
							t.Errorf("%s: %s reads %d jobs, want %d", way, of, n, len(sent))
						}
					}
					for _, m := range process().take(reader.Open("q", queue.Options{}), 1) {
						if !bytes.Equal(m.Payload, sent[m.ID]) {
							t.Errorf("%s: job %s is handed out as %q; want %q", way, m.ID, m.Payload, sent[m.ID])
						}
					}
				}
			}
		})
	}
}

// wipe deletes all keys of the store.
func (b *table) wipe() {
	b.Helper()
	for _, tag := range b.tags {
		keys, err := b.client.Do(b.Context(), b.client.B().Keys().Pattern(tag+"*").Build()).AsStrSlice()
		if err == nil && len(keys) > 0 {
			err = b.client.Do(b.Context(), b.client.B().Del().Key(keys...).Build()).Error()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
