package event

// Consent is what a person has agreed to, according to the event.
type Consent struct {
	Present       bool // the event has a consent object
	TCF           bool // it has a TCF part
	Purposes      Purposes
	GPC           Said   // Global Privacy Control in the event; the request's header is separate
	USP           string // four characters, such as 1YNN
	Jurisdiction  string // EU UK CA US BR AU ROW
	Analytics     Said
	Marketing     Said
	Personal      Said // personalization
	Advertising   Said
	PublisherFrom string // publisherCC: two capitals
}

// Said is an answer that may be missing.
type Said uint8

// The answers.
const (
	Unsaid Said = iota
	No
	Yes
)

func said(v []byte) Said {
	if v[0] == 't' {
		return Yes
	}
	return No
}

// Purposes are those of the TCF, 1 to 11, that the event names.
type Purposes struct{ named, granted uint16 }

// Of says whether a purpose was agreed to.
func (p Purposes) Of(purpose int) Said {
	bit := uint16(1) << purpose
	switch {
	case p.named&bit == 0:
		return Unsaid
	case p.granted&bit == 0:
		return No
	}
	return Yes
}
