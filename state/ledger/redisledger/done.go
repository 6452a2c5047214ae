package redisledger

import (
	_ "embed"
	"encoding/binary"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/ledger"
)

//go:embed done.lua
var doneLua string

// Done is the ledger's part in a script of another role: entries that are done as soon as
// they begin. They are kept, under a new token, for requests of
// which no entry is in the ledger; others are not to be taken. AppendDone makes the
// arguments of a request.
func (l *Ledger) Done() redisconn.Part {
	return redisconn.Part{Lua: headLua + doneLua, Keys: []string{l.keys[0], l.keys[2], l.keys[3]},
		Args: func() []string { return []string{l.clock()} }}
}

// AppendDone appends the arguments of a request with these entries, each of another key.
// Payloads are not kept.
func AppendDone(args []string, es []*ledger.Entry) ([]string, error) {
	if err := ledger.CheckBegin(es); err != nil {
		return args, err
	}
	args = append(args, strconv.Itoa(len(es)))
	for _, e := range es {
		args = append(args, e.Key, rueidis.BinaryString(appendBehind(make([]byte, 0, 8+9+len(e.Holder)+len(e.Tenant)+len(e.Type)+len(e.Print)+len(e.Result)), e)))
	}
	return args, nil
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
