package redisledger

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/ledger"
)

// errAnswer says that a script's answer has another form than expected.
var errAnswer = errors.New("the answer of Redis is not what the ledger asked for")

const (
	version  = 1
	headSize = 3 + 3 + 7 + 3*6 + 8 + 3*2 + 1 + 2 // FORM of head.lua
)

// record reads an entry and its payload as the scripts answer them; nil for none.
func record(key string, of []rueidis.RedisMessage) (*ledger.Record, error) {
	if of[0].IsNil() {
		return nil, nil
	}
	head, err := of[0].ToString()
	if err != nil {
		return nil, err
	}
	payload := ""
	if !of[1].IsNil() {
		if payload, err = of[1].ToString(); err != nil {
			return nil, err
		}
	}
	r, err := decode([]byte(head))
	if err != nil {
		return nil, err
	}
	r.Key, r.Payload = key, []byte(payload)
	return r, nil
}

// decode reads an entry as head.lua describes it. It keeps parts of b.
func decode(b []byte) (*ledger.Record, error) {
	if len(b) < headSize || b[0] != version {
		return nil, wire.ErrDamaged
	}
	number := func(size int) (n uint64) {
		var wide [8]byte
		copy(wide[:], b[:size])
		b = b[size:]
		return binary.LittleEndian.Uint64(wide[:])
	}
	r := new(ledger.Record)
	number(1)
	r.State, r.Cut, r.Tries, r.Token = ledger.State(number(1)), number(1) == 1, int(number(3)), number(7)
	r.Created, r.Started = instant(number(6)), instant(number(6))
	if mark := instant(number(6)); r.State == ledger.Running {
		r.Until = mark
	} else {
		r.Ended = mark
	}
	r.Call = number(8)
	lengths := [5]int{int(number(2)), int(number(2)), int(number(2)), int(number(1)), int(number(2))}
	if lengths[0]+lengths[1]+lengths[2]+lengths[3]+lengths[4] > len(b) {
		return nil, wire.ErrDamaged
	}
	part := func(i int) []byte {
		p := b[:lengths[i]]
		b = b[lengths[i]:]
		return p
	}
	r.Holder, r.Tenant, r.Type, r.Print, r.Err = string(part(0)), string(part(1)), string(part(2)), part(3), string(part(4))
	r.Result = b
	return r, nil
}

func instant(milli uint64) time.Time { return time.UnixMilli(int64(milli)).UTC() }
