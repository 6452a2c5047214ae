package deadletter

import "github.com/tidemill/tidemill"

// Account is the books of a pipeline's dead letters for operators: put = held + replayed +
// discarded (+ trimmed, where they may be). Discarded dead letters were deleted by hand,
// skipped at their replay, or replaced because the message was accepted once more and died.
type Account struct {
	Put       uint64 `json:"put"`
	Held      uint64 `json:"held"` // and replaying
	Replayed  uint64 `json:"replayed"`
	Discarded uint64 `json:"discarded"`
	Trimmed   uint64 `json:"trimmed"`
}

// PipelineOf is the pipeline whose dead letters a source has that Store.Open made; false: it is
// another source, whose books are not those of dead letters.
func PipelineOf(source tidemill.Bookkeeper) (string, bool) {
	s, ok := source.(interface{ PipelineOfLetters() string })
	if !ok {
		return "", false
	}
	return s.PipelineOfLetters(), true
}

// AccountOf reads the books of a source that Store.Open made.
func AccountOf(b tidemill.Books) Account {
	return Account{Put: b.Accepted, Held: b.Pending, Replayed: b.Settled.Delivered, Discarded: b.Settled.Skipped, Trimmed: b.Lost}
}
