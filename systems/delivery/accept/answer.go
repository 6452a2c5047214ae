package accept

import "github.com/tidemill/tidemill/systems/delivery/event"

// Words of answers.
const (
	statusAccepted  = "accepted"
	statusDuplicate = "duplicate"
	statusRejected  = "rejected"

	ErrorInvalid = "validation_failed"      // of an event that is wrong
	ErrorReused  = "idempotency_key_reused" // of an event whose own key belongs to another event
)

// answer writes what became of the request, whole and for each item.
func (p *plan) answer() (a *Answer, each [][]byte) {
	a = &Answer{Results: make([]byte, 0, 80*len(p.items)+2)}
	if each = p.roomOfEach[:]; len(p.items) != 1 {
		each = make([][]byte, len(p.items))
	}
	b := append(a.Results, '[')
	for i := range p.items {
		if i > 0 {
			b = append(b, ',')
		}
		start := len(b)
		switch p.items[i].fate {
		case fresh:
			a.Accepted++
		case duplicate, same:
			a.Duplicate++
		case refused, reused:
			a.Rejected++
		case answered:
			a.Repeated = append(a.Repeated, i)
		}
		b = p.appendItem(b, i, each)
		each[i] = b[start:len(b):len(b)]
	}
	a.Results = append(b, ']')
	return a, each
}

func (p *plan) appendItem(b []byte, i int, each [][]byte) []byte {
	it, in := &p.items[i], &p.r.Items[i]
	switch it.fate {
	case answered:
		return append(b, it.stored...)
	case same:
		return append(b, each[it.like]...)
	case fresh:
		b = appendHead(b, it.job, statusAccepted)
		if in.Note != nil {
			b = append(append(b, `,"partners":`...), in.Note...)
		}
	case duplicate:
		id := in.Event.ID
		if id == "" {
			id = it.of
		}
		b = appendHead(b, id, statusDuplicate)
		b = append(b, `,"duplicateOf":`...)
		b = event.Quote(b, it.of)
	case reused:
		b = appendHead(b, in.Event.ID, statusRejected)
		b = append(b, `,"error":"`+ErrorReused+`","message":`...)
		b = event.Quote(b, ErrReused.Error())
	case refused:
		return appendRefused(b, in)
	}
	return append(b, '}')
}

func appendRefused(b []byte, in *Item) []byte {
	b = appendHead(b, in.Event.ID, statusRejected)
	b = append(b, `,"error":"`+ErrorInvalid+`"`...)
	if len(b) < MaxAnswer {
		b = append(b, `,"details":`...)
		b = in.Refused.AppendJSON(b)
	}
	return append(b, '}')
}

// AppendRefused appends the results of a request whose items are all refused, as an Answer has
// them.
func AppendRefused(b []byte, items []Item) []byte {
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendRefused(b, &items[i])
	}
	return append(b, ']')
}

func appendHead(b []byte, id, status string) []byte {
	b = append(b, '{')
	if id != "" {
		b = append(b, `"eventId":`...)
		b = append(event.Quote(b, id), ',')
	}
	return append(append(append(b, `"status":"`...), status...), '"')
}
