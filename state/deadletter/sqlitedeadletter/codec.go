package sqlitedeadletter

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// version is the first byte of every encoding here: a new form gets a new number.
const version = 1

// encodeMessage writes all that is neither a column nor the payload.
func encodeMessage(m *tidemill.Message) []byte {
	return rules.AppendMessage(append(make([]byte, 0, 128), version, m.Priority), m)
}

// decodeMessage is the inverse of encodeMessage. It copies what it keeps.
func decodeMessage(b []byte, m *tidemill.Message) error {
	r := wire.NewReader(b)
	if r.Byte() != version {
		return wire.ErrDamaged
	}
	m.Priority = r.Byte()
	rules.ReadMessage(r, m)
	return r.End()
}
