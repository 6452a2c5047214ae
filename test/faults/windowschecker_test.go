//go:build servers

package faults

import (
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems/windows"
)

// TestTheCheckerOfWindowsSeesWhatIsWrong damages the reports of topics, index and product, and
// runs the checker.
func TestTheCheckerOfWindowsSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) {
		w.run(1)
		items := w.batches(0, 1, 20)
		items[3].ends, items[3].broken = "intake", true
		<-w.produce(items, windowsProducing{Changed: 20})
		o := w.look(afterWindows)
		if w.complain(w.judge(o, windowsAllowance{})); w.Failed() {
			return
		}
		sees := func(what string, damage, mend func()) {
			t.Helper()
			damage()
			defer mend()
			if found := strings.Join(w.judge(o, windowsAllowance{}), "\n"); !strings.Contains(found, what) {
				t.Errorf("the checker does not see %q: %.1000q", what, found)
			}
		}
		var i *windowsItem
		for _, x := range items {
			if x.kind == "event" && x.newest == 1 && x.ends == "" {
				i = x
			}
		}
		messages := o.topics["event"]
		same := func() { o.topics["event"] = messages }
		without := func(skip func(windowsMessage) bool) (left []windowsMessage) {
			for _, m := range messages {
				if !skip(m) {
					left = append(left, m)
				}
			}
			return left
		}
		of := func(m windowsMessage) bool { return m.key == i.key() }
		sees("is not on the topic", func() { o.topics["event"] = without(of) }, same)
		sees("messages are there once more", func() { o.topics["event"] = append(messages[:len(messages):len(messages)], messages[0], messages[0]) }, same)
		sees("nobody has sent it", func() {
			o.topics["event"] = append(messages[:len(messages):len(messages)], windowsMessage{key: "7", value: []byte(`{}`)})
		}, same)
		sees("it went out as", func() {
			m := messages[0]
			m.value = []byte(strings.Replace(string(m.value), `"isRootEvent":`, `"isRootEvent":1`, 1))
			o.topics["event"] = append([]windowsMessage{m}, messages[1:]...)
		}, same)
		sees("in several partitions", func() {
			m := messages[0]
			m.partition += 7
			o.topics["event"] = append(messages[:len(messages):len(messages)], m)
		}, same)
		sees("want 2", func() { i.newest = 2 }, func() { i.newest = 1 })
		docs := o.docs["event"]
		kept := func() { o.docs["event"] = docs }
		sees("is not in the index", func() { o.docs["event"] = docs[1:] }, kept)
		sees("in the index twice", func() { o.docs["event"] = append(docs[:len(docs):len(docs)], docs[0]) }, kept)
		sees("is in the index as", func() {
			d := docs[0]
			d.body = []byte(strings.Replace(string(d.body), `"quadClass":`, `"quadClass":1`, 1))
			o.docs["event"] = append([]windowsDoc{d}, docs[1:]...)
		}, kept)
		sees("is in the index of", func() { d := docs[0]; d.day = "2025-01-01"; o.docs["event"] = append([]windowsDoc{d}, docs[1:]...) }, kept)
		letters := o.letters
		held := func() { o.letters = letters }
		sees("and has none", func() { o.letters = nil }, held)
		sees("a letter is not meant to be", func() {
			o.letters = append(letters[:len(letters):len(letters)], windowsLetter{Pipeline: windows.Delivered})
		}, held)
		sees("a letter is not meant to be", func() { l := letters[0]; l.Kind = "internal"; o.letters = []windowsLetter{l} }, held)
		sees("the books say", func() { o.audit.Balanced = false }, func() { o.audit.Balanced = true })
		sees("windows are left", func() { o.windows = []windowsWindow{{State: "parked"}} }, func() { o.windows = nil })
		sees("a copy on the topic for dead events", func() { o.dead["event"] = messages[:1] }, func() { o.dead["event"] = nil })
		was := windowsTypes["event"]
		sees("the index has quadClass", func() { windowsTypes["event"] = strings.Replace(was, "integer quadClass", "long quadClass", 1) }, func() { windowsTypes["event"] = was })
	})
}
