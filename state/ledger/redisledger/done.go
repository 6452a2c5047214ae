package redisledger

import (
	_ "embed"
	"encoding/binary"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/ledger"
)

//go:embed done.lua
var doneLua string

// Done is the ledger's part in a script of another role: entries that are done as soon as
// they begin. They are kept, under a new token, for requests without an entry in the
// ledger; other requests are refused. AppendDone makes the arguments of a request.
func (l *Ledger) Done() redisconn.Part {
	return redisconn.Part{Lua: headLua + listLua + doneLua, Keys: []string{l.keys[0], l.keys[2], l.keys[3]},
		Args: func() []string { return []string{l.clock()} }}
}

// AppendDone appends names and texts of these entries, each with another key. Payloads are
// not kept.
func AppendDone(names, texts []string, es []*ledger.Entry) ([]string, []string, error) {
	if err := ledger.CheckBegin(es); err != nil {
		return names, texts, err
	}
	n := 0
	for _, e := range es {
		n += behind(e)
	}
	b := make([]byte, 0, n)
	for _, e := range es {
		from := len(b)
		b = appendBehind(b, e)
		names, texts = append(names, e.Key), append(texts, rueidis.BinaryString(b[from:len(b):len(b)]))
	}
	return names, texts, nil
}

// behind is how many bytes appendBehind appends.
func behind(e *ledger.Entry) int {
	return 8 + 9 + len(e.Holder) + len(e.Tenant) + len(e.Type) + len(e.Print) + len(e.Result)
}

// appendBehind appends all of an entry behind its times (FORM of head.lua).
func appendBehind(b []byte, e *ledger.Entry) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.Call)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Holder)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Tenant)))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.Type)))
	b = binary.LittleEndian.AppendUint16(append(b, byte(len(e.Print))), 0)
	b = append(append(append(b, e.Holder...), e.Tenant...), e.Type...)
	return append(append(b, e.Print...), e.Result...)
}
