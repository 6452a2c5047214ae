package record

import "github.com/tidemill/tidemill/state/window"

// ToWindow reads an incoming record and makes the record that a window keeps. Every way in uses
// it, so that a record that comes twice is recognised. The body is raw itself, and into is the
// decoded record. The result keeps both, and into keeps raw. The error, of kind validation, is
// that of CheckBatchID, Decode or window.Check.
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
