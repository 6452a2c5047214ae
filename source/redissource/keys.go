package redissource

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

// keys are the names of what a source keeps in Redis. All of them hash to the stream's slot.
type keys struct {
	stream, books, due, again, gate, probes string
	names                                   string // prefix of consumers' names
}

func keysOf(stream, group string) (keys, error) {
	tag, err := tagged(stream)
	if err != nil {
		return keys{}, err
	}
	at := func(role string) string { return tag + ":" + role + ":" + group }
	return keys{stream: stream, books: at("books"), due: at("due"), again: at("again"), gate: at("gate"), probes: at("probes"), names: at("consumer") + ":"}, nil
}

func (k *keys) consumer(name string) string { return k.names + name }

// tagged is a prefix that hashes to the stream's slot: a cluster hashes what lies between
// the first braces of a key, unless that is empty.
func tagged(stream string) (string, error) {
	open := strings.IndexByte(stream, '{')
	if open >= 0 {
		if end := strings.IndexByte(stream[open+1:], '}'); end > 0 {
			return stream, nil
		}
	}
	if strings.ContainsAny(stream, "{}") {
		return "", fmt.Errorf("stream %q: braces in its name have to be a hash tag, as in {shop}:events", stream)
	}
	return "{" + stream + "}", nil
}

// parsePlace reads an entry's id.
func parsePlace(id string) (p place, ok bool) {
	ms, seq, _ := strings.Cut(id, "-")
	var err1, err2 error
	p.ms, err1 = strconv.ParseUint(ms, 10, 64)
	p.seq, err2 = strconv.ParseUint(seq, 10, 64)
	return p, err1 == nil && err2 == nil
}

// canonical reads an entry's id that is written as Redis writes it.
func canonical(id string) (p place, ok bool) {
	var b [41]byte
	p, ok = parsePlace(id)
	return p, ok && string(p.append(b[:0])) == id
}

// String is the entry's id.
func (p place) String() string {
	var b [41]byte
	return string(p.append(b[:0]))
}

func (p place) append(b []byte) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(b, p.ms, 10), '-'), p.seq, 10)
}

// compare orders ids as the stream does.
func (p place) compare(o place) int {
	switch {
	case p == o:
		return 0
	case p.ms < o.ms, p.ms == o.ms && p.seq < o.seq:
		return -1
	}
	return 1
}

func placeOf(m tidemill.Mark) place { return place{m.Hi, m.Lo} }
