//go:build servers

package faults

import (
	"strings"
	"testing"
)

// TestTheCheckerOfCRMSeesWhatIsWrong damages the reports of endpoint and product, and runs the
// checker.
func TestTheCheckerOfCRMSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	crmRounds(t, crmEmbedded, func(w *crmWorld) {
		w.run(1)
		<-w.load("big", 0, 100, 0)
		o := w.look(afterCRMLease)
		if w.complain(w.judge(o, 0)); w.Failed() {
			return
		}
		sees := func(what string, damage, mend func()) {
			t.Helper()
			damage()
			defer mend()
			if found := strings.Join(w.judge(o, 0), "\n"); !strings.Contains(found, what) {
				t.Errorf("the checker does not see %q: %q", what, found)
			}
		}
		var plain, dead *crmEvent
		for _, e := range w.sent {
			switch {
			case e.ends == "business":
				dead = e
			case e.ends == "" && e.typ == "app.ordered":
				plain = e
			}
		}
		rec := w.app.seen[plain.key()]
		was := *rec
		same := func() { *rec = was }
		sees("asked for again 1 times", func() { rec.good = 2 }, same)
		sees("never did it", func() { rec.did = 0 }, same)
		sees("the endpoint got", func() { rec.odd = true }, same)
		sees("the endpoint got", func() { rec.body = "x" }, same)
		record := o.records[plain.key()]
		log := func() { o.records[plain.key()] = record }
		sees("has nothing of it", func() { delete(o.records, plain.key()) }, log)
		sees("has taken it", func() { r := record; r.State, r.Kind = "FAILED", "validation"; o.records[plain.key()] = r }, log)
		sees("it is PROCESSING", func() { r := record; r.State = "PROCESSING"; o.records[plain.key()] = r }, log)
		letter := o.letters[dead.key()]
		held := func() { o.letters[dead.key()] = letter }
		sees("has a letter: false", func() { delete(o.letters, dead.key()) }, held)
		sees("the sync log says business", func() { l := letter; l.Kind = "transient"; o.letters[dead.key()] = l }, held)
		sees("its payload is", func() { l := letter; l.Payload = "{}"; o.letters[dead.key()] = l }, held)
		sees("the books say", func() { o.audit.Balanced = false }, func() { o.audit.Balanced = true })
		sees("has a letter: true", func() { o.letters[plain.key()] = letter }, func() { delete(o.letters, plain.key()) })
	})
}
