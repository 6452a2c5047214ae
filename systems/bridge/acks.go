package bridge

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	json "github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
)

// Acks is where the subscriber says what it has received. Its methods are called by one
// goroutine, except that Subscribe comes first.
type Acks interface {
	// Subscribe makes sure that acks come in from now on.
	Subscribe(ctx context.Context) error
	// Receive waits for acks and calls each with the payload of every one; the bytes are each's
	// until it returns. An error is transient: Receive is called again.
	Receive(ctx context.Context, each func(payload []byte)) error
	// Unsubscribe ends the subscription. Acks that came in before are still received, without
	// waiting.
	Unsubscribe(ctx context.Context) error
}

// word is one ack as the subscriber writes it:
//
//	{"id":"<entry id>","ack":true}
//	{"ids":["<entry id>", …],"stream":"<optional>","ack":true}
type word struct {
	ID     string   `json:"id"`
	IDs    []string `json:"ids"`
	Stream string   `json:"stream"`
	Ack    *bool    `json:"ack"`
}

// partIDs is how many ids of one ack become ends at once: an ack may name as many as an MQTT
// message holds.
const partIDs = 4096

// many is an ack of many ids that is processed in parts.
type many struct {
	ids []string
	ack bool
}

// listener turns acks into ends for the engine's settler.
type listener struct {
	b *Bridge

	ready   []tidemill.Settlement // read and not yet handed over
	next    int                   // the first of them
	rest    []many                // read and not ready yet, oldest first
	ended   bool                  // the subscription is over
	word    word
	refused map[string]time.Time // until when a refused entry is put off
}

// receive is a flow.Pipeline.Acks. When ctx ends, which is at the very end of a stop, it
// unsubscribes and hands over the acks that came in until then.
func (l *listener) receive(ctx context.Context, into []tidemill.Settlement) (int, error) {
	for {
		if n := copy(into, l.ready[l.next:]); n > 0 {
			clear(l.ready[l.next : l.next+n])
			if l.next += n; l.next == len(l.ready) {
				l.ready, l.next = l.ready[:0], 0
			}
			return n, nil
		}
		if l.part() {
			continue
		}
		err := l.b.p.Acks.Receive(ctx, l.take)
		if len(l.ready)+len(l.rest) > 0 {
			continue
		}
		if ctx.Err() == nil {
			return 0, err
		}
		if l.ended {
			return 0, nil
		}
		l.ended = true
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.b.o.Farewell)
		err = l.b.p.Acks.Unsubscribe(last)
		cancel()
		if err != nil {
			// Logged when the bridge stops and the broker did not confirm that it wants no more acks.
			// To do: nothing: entries without an ack come again.
			l.b.o.Log.Warn("the subscription to acks could not be ended in order", "error", err)
		}
	}
}

// take reads one ack.
func (l *listener) take(payload []byte) {
	s := &l.b.stats
	id, ok, plain := plainAck(payload)
	if plain {
		if len(id) == 0 {
			s.garbage.Add(1)
			return
		}
		l.end(string(id), ok)
		return
	}
	l.word.ID, l.word.IDs, l.word.Stream, l.word.Ack = "", l.word.IDs[:0], "", nil
	if err := json.Unmarshal(payload, &l.word, json.MatchCaseInsensitiveNames(false)); err != nil || l.word.Ack == nil {
		s.garbage.Add(1)
		return
	}
	if l.word.ID != "" {
		l.word.IDs = append(l.word.IDs, l.word.ID)
	}
	if len(l.word.IDs) == 0 {
		s.garbage.Add(1)
		return
	}
	if l.word.Stream != "" && l.word.Stream != l.b.o.Stream {
		s.unknown.Add(uint64(len(l.word.IDs)))
		return
	}
	if len(l.word.IDs) > partIDs {
		l.rest = append(l.rest, many{l.word.IDs, *l.word.Ack})
		l.word.IDs = nil
		return
	}
	l.named(l.word.IDs, *l.word.Ack)
}

// part makes the next ends of an ack of many ids, and reports whether there were any.
func (l *listener) part() bool {
	if len(l.rest) == 0 {
		return false
	}
	m := &l.rest[0]
	n := min(partIDs, len(m.ids))
	l.named(m.ids[:n], m.ack)
	if m.ids = m.ids[n:]; len(m.ids) == 0 {
		l.rest = slices.Delete(l.rest, 0, 1)
	}
	return true
}

// named notes the ids of one ack.
func (l *listener) named(ids []string, ack bool) {
	for _, id := range ids {
		if id == "" {
			l.b.stats.garbage.Add(1)
			continue
		}
		l.end(id, ack)
	}
}

func (l *listener) end(id string, ack bool) {
	tries := l.b.known.forget(id)
	l.b.answers.came(id, l.b.o.Now)
	if ack {
		l.ready = append(l.ready, tidemill.Settlement{ID: id, End: tidemill.Done, Fate: tidemill.Delivered})
		return
	}
	// An entry that is put off and was not published since cannot be refused again: it is the
	// same refusal.
	now := l.b.o.Now()
	if now.Before(l.refused[id]) {
		l.b.stats.unknown.Add(1)
		return
	}
	// A refusal is a failed try. After the last one the entry comes back at once and becomes a
	// dead letter.
	wait := time.Duration(0)
	if tries+1 < l.b.o.attempts() {
		wait = l.b.o.Retry.Wait(tries+1, 0)
	}
	if wait > 0 {
		l.putOff(id, now.Add(wait))
	}
	l.ready = append(l.ready, tidemill.Settlement{ID: id, End: tidemill.Again, CountTry: true, After: wait,
		Kind: tidemill.Business, Cause: "the receiver refused it"})
}

// putOff notes until when an entry cannot be published again.
func (l *listener) putOff(id string, until time.Time) {
	note(&l.refused, id, until)
}

// plainAck reads the usual form of ack, {"id":"…","ack":true} with or without blanks, if the id
// needs no unescaping. plain is false for all others.
func plainAck(p []byte) (id []byte, ack, plain bool) {
	p = bytes.TrimSpace(p)
	for _, key := range [...]string{`{`, `"id"`, `:`, `"`} {
		var ok bool
		if p, ok = after(p, key); !ok {
			return nil, false, false
		}
	}
	end := bytes.IndexByte(p, '"')
	if end < 0 || !clean(p[:end]) {
		return nil, false, false
	}
	id, p = p[:end], p[end+1:]
	for _, key := range [...]string{`,`, `"ack"`, `:`} {
		var ok bool
		if p, ok = after(bytes.TrimLeft(p, " \t\r\n"), key); !ok {
			return nil, false, false
		}
	}
	p = bytes.TrimLeft(p, " \t\r\n")
	if rest, ok := after(p, "true"); ok {
		p, ack = rest, true
	} else if p, ok = after(p, "false"); !ok {
		return nil, false, false
	}
	return id, ack, string(bytes.TrimSpace(p)) == "}"
}

// after cuts a word and the blanks behind it, except behind a quote that opens a string.
func after(p []byte, word string) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(p, []byte(word))
	if ok && word != `"` {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	return rest, ok
}

// tries remembers how often entries in flight had failed before, so that the wait after a
// refusal is right. A forgotten entry waits as after a first failure: the source keeps the
// count.
type tries struct {
	mu sync.Mutex // guards of
	of map[string]int
}

// maxTries bounds the memory, which has only entries that failed before.
const maxTries = 100_000

func (t *tries) note(id string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	note(&t.of, id, n)
}

// note remembers v of an entry. If there are too many it forgets all.
func note[V any](of *map[string]V, id string, v V) {
	if len(*of) >= maxTries {
		clear(*of)
	}
	if *of == nil {
		*of = map[string]V{}
	}
	(*of)[id] = v
}

func (t *tries) forget(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.of[id]
	delete(t.of, id)
	return n
}

// attempts is how often a message may fail, the first time included.
func (o *Options) attempts() int {
	if o.Retry.Tries < 0 {
		return int(^uint(0) >> 1)
	}
	return o.Retry.Tries + 1
}
