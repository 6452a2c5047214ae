package sqlitequeue

import (
	"encoding/binary"

	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/internal/rules"
)

// Failures of a job lie one after the other, each the length of its text and the text.

// readFailures reads a job's failed tries; it leaves out damaged ones.
func readFailures(b []byte) (all []queue.Failure) {
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return all
		}
		if f, ok := queue.ParseFailure(b[size : size+int(n)]); ok {
			all = append(all, f)
		}
		b = b[size+int(n):]
	}
	return all
}

// addFailure returns the failures with one more, in new memory.
func addFailure(b []byte, f queue.Failure) []byte {
	var all, text []byte
	for _, f := range rules.AddFailure(readFailures(b), f) {
		text = f.Append(text[:0])
		all = append(binary.AppendUvarint(all, uint64(len(text))), text...)
	}
	return all
}
