package bullmqsource

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// node is a job of a flow.
func node(queue, name string, opts map[string]any, children ...map[string]any) map[string]any {
	n := map[string]any{"queueName": queue, "name": name, "data": map[string]any{}, "opts": opts}
	if len(children) > 0 {
		n["children"] = children
	}
	return n
}

// A parent in another queue goes on when its children are done, and knows what they made.
func TestChildrenReleaseTheirParent(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		parents := r.o
		parents.Queue += "-parents"
		above, err := New(r.client, parents)
		if err != nil {
			t.Fatal(err)
		}
		for _, opts := range []map[string]any{nil, {"priority": 7}, {"removeOnComplete": true}} {
			r.do("flow", node(parents.Queue, "parent", opts, node(r.o.Queue, "one", opts), node(r.o.Queue, "two", opts)))
			got := r.receive(r.src, 2, 5*time.Second)
			if h := string(got[0].Get(ParentHeader)); !strings.HasPrefix(h, "bull:"+parents.Queue+":") {
				t.Errorf("the parent is %q", h)
			}
			r.settle(r.src, tidemill.Applied, done(got[0]))
			r.nothing(above, 100*time.Millisecond)
			r.settle(r.src, tidemill.Applied, done(got[1]))
			m := r.receive(above, 1, 5*time.Second)[0]
			if m.Type != "parent" {
				t.Errorf("received %s, want the parent", m.Type)
			}
			values, err := r.client.Do(t.Context(), r.client.B().Hgetall().Key(above.base+m.ID+":processed").Build()).AsStrMap()
			if err != nil || len(values) != 2 || values[r.src.base+got[0].ID] != "null" {
				t.Errorf("the parent knows of %v, %v", values, err)
			}
			r.settle(above, tidemill.Applied, done(m))
		}
	})
}

// What a child's failure means to its parent is the child's own option.
func TestAChildFails(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		parents := r.o
		parents.Queue += "-parents"
		above, err := New(r.client, parents)
		if err != nil {
			t.Fatal(err)
		}
		fail := func(opts map[string]any) string {
			t.Helper()
			r.do("flow", node(parents.Queue, "parent", nil, node(r.o.Queue, "child", opts)))
			m := r.receive(r.src, 1, 5*time.Second)[0]
			r.settle(r.src, tidemill.Applied, dead(m, "no luck"))
			return string(m.Get(ParentHeader))[len(above.base):]
		}
		of := func(id string) *seenJob {
			t.Helper()
			return as[*seenJob](r.peer, r.do("other", parents.Queue, "getJob", id))
		}
		goesOn := func(id string) {
			t.Helper()
			m := r.receive(above, 1, 5*time.Second)[0]
			if m.ID != id {
				t.Fatalf("received %s, want parent %s", m.ID, id)
			}
			r.settle(above, tidemill.Applied, done(m))
		}
		id := fail(nil)
		r.nothing(above, 200*time.Millisecond)
		if j := of(id); j.State != "waiting-children" {
			t.Errorf("the parent of a child that failed is %s", j.State)
		}
		goesOn(fail(map[string]any{"removeDependencyOnFailure": true}))
		if version != "bullmq-early" {
			goesOn(fail(map[string]any{"ignoreDependencyOnFailure": true}))
			goesOn(fail(map[string]any{"continueParentOnFailure": true}))
		}
		goesOn(fail(map[string]any{"removeOnFail": true}))
		id = fail(map[string]any{"failParentOnFailure": true})
		if j := of(id); version == "bullmq-early" && j.State != "failed" { // its workers do not look for a failure that was put off
			t.Errorf("the parent is %s", j.State)
		}
		r.nothing(above, 300*time.Millisecond) // it is failed, not worked on
		if j := of(id); j.State != "failed" || !strings.HasPrefix(j.FailedReason, "child bull:"+r.o.Queue+":") {
			t.Errorf("the parent is %+v", j)
		}
	})
}

// A parent that is worked on while children are added to it is not done before they are: as with
// BullMQ, it has failed, and its attempts say what comes next.
func TestAParentWithOpenChildrenIsNotDone(t *testing.T) {
	each(t, func(t *testing.T, version string) {
		r := newRig(t, version, Options{})
		id := r.add(map[string]any{}, map[string]any{"attempts": 2, "backoff": 60_000})
		m := r.receive(r.src, 1, 5*time.Second)[0]
		r.do("other", r.o.Queue+"-children", "add", "child", map[string]any{}, map[string]any{"parent": map[string]any{"id": id, "queue": "bull:" + r.o.Queue}})
		end := r.settle(r.src, tidemill.Applied, done(m))[0]
		if end.End != tidemill.Again || !end.CountTry {
			t.Errorf("the settlement says %+v", end)
		}
		if j := r.job(id); j.State != "delayed" || j.AttemptsMade != 1 || !strings.Contains(j.FailedReason, "children") {
			t.Errorf("the parent is %+v", j)
		}
	})
}

// A deduplication ends with its job; the last one that came while the job was out comes after it.
func TestDeduplication(t *testing.T) {
	late(t, func(t *testing.T, version string) { // an early one has none
		r := newRig(t, version, Options{})
		simple := map[string]any{"deduplication": map[string]any{"id": "same"}}
		first := r.add(map[string]any{}, simple)
		if second := r.add(map[string]any{}, simple); second != first {
			t.Fatalf("a second job is there beside %s: %s", first, second)
		}
		m := r.receive(r.src, 1, 5*time.Second)[0]
		if string(m.Get(DeduplicationHeader)) != "same" {
			t.Errorf("the deduplication is %q", m.Get(DeduplicationHeader))
		}
		r.settle(r.src, tidemill.Applied, done(m))
		third := r.add(map[string]any{}, simple)
		if third == first {
			t.Fatal("the deduplication outlives its job")
		}
		r.settle(r.src, tidemill.Applied, dead(r.receive(r.src, 1, 5*time.Second)[0], "no"))

		last := func(n int) map[string]any {
			return map[string]any{"deduplication": map[string]any{"id": "last", "keepLastIfActive": true}, "attempts": n}
		}
		r.add(map[string]any{"n": 0}, last(1))
		m = r.receive(r.src, 1, 5*time.Second)[0]
		for n := range 3 {
			r.add(map[string]any{"n": n + 1}, last(n+1))
		}
		r.nothing(r.src, 200*time.Millisecond)
		r.settle(r.src, tidemill.Applied, done(m))
		m = r.receive(r.src, 1, 5*time.Second)[0]
		if string(m.Payload) != `{"n":3}` || parseOptions(string(m.Get(OptionsHeader))).attempts != 3 || string(m.Get(DeduplicationHeader)) != "last" {
			t.Errorf("after it came %s with %s", m.Payload, m.Get(OptionsHeader))
		}
		r.settle(r.src, tidemill.Applied, done(m))
		r.nothing(r.src, 200*time.Millisecond)
		if j := r.job(m.ID); j.State != "completed" {
			t.Errorf("the job that came after is %+v", j)
		}
	})
}
