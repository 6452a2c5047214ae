package record

import "github.com/tidemill/tidemill/state/window"

// ToWindow reads a record that came in and makes of it what a window keeps: every way in
// does it by the same rules, so that a record that comes twice is found to be the same. The
// body is raw itself, and into is what was read of it; both are kept by what is returned, and
// by into. The error, of kind validation, is that of CheckBatchID, Decode or window.Check.
func ToWindow(batch Batch, k Kind, raw []byte, into *Record) (window.Record, error) {
	if err := CheckBatchID(batch.ID()); err != nil {
		return window.Record{}, err
	}
	if err := Decode(k, raw, into); err != nil {
		return window.Record{}, err
	}
	var room [256]byte // most names are shorter
	name := into.AppendKey(room[:0])
	id := len(name)
	both := string(into.AppendQualifier(name))
	r := window.Record{Batch: batch.String(), Kind: k.String(), ID: both[:id], Qualifier: both[id:], Body: raw}
	return r, window.Check(&r)
}
