package kafkasource

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

// maxMetadata is how long a commit's metadata may be by a broker's default.
const maxMetadata = 4096

// A row is what a commit says of a partition: its offset is mark, its metadata the rest.
// The numbers count everything that has ended, also ahead of the mark, so that
//
//	mark - base + ended ahead = settled + void + lost
type row struct {
	mark    int64
	Base    int64 // where the group began; moved when a log goes back, so that the equation holds
	Settled tidemill.Count
	Void    uint64   // offsets without a message: ends of transactions, rolled back, compacted
	Lost    uint64   // deleted before they were settled
	Starts  uint32   // how often the partition was taken over since the mark last moved
	Handed  int64    // no offset from here on was ever handed out
	End     int64    // the end of the log as it was last seen
	Topic   [16]byte // the topic's id: another one means a topic made anew
	By      uint32   // the member that wrote this, by a number of its own; 0: not known
	lineage
	ahead []span // what has ended ahead of the mark
	tries []span // what has failed
}

// A span is a run of offsets that all ended, or that all failed equally often.
type span struct {
	from, to int64
	tries    int32
}

// version begins the metadata. A process that does not know it does not touch the group.
const version = "tidemill1"

// text is the metadata. Tries are left out where there is no room.
func (r *row) text() string {
	b := []byte(version)
	num := func(name string, v int64) {
		if v != 0 {
			b = append(append(append(b, ' '), name...), '=')
			b = strconv.AppendInt(b, v, 10)
		}
	}
	num("base", r.Base)
	num("delivered", int64(r.Settled.Delivered))
	num("skipped", int64(r.Settled.Skipped))
	num("dead", int64(r.Settled.Dead))
	num("void", int64(r.Void))
	num("lost", int64(r.Lost))
	num("starts", int64(r.Starts))
	num("handed", r.Handed)
	num("end", r.End)
	num("by", int64(r.By))
	num("since", r.Since)
	num("from", r.From)
	num("parts", r.Parts)
	if r.Topic != [16]byte{} {
		b = hex.AppendEncode(append(b, " topic="...), r.Topic[:])
	}
	if len(r.ahead) > 0 {
		name, set := " runs=", runs(r.mark, r.ahead)
		if last := r.ahead[len(r.ahead)-1].to - r.mark; int64(len(set)) > last/8+1 {
			name, set = " bits=", bits(r.mark, r.ahead)
		}
		b = base64.RawStdEncoding.AppendEncode(append(b, name...), set)
	}
	if len(r.tries) > 0 {
		const name = " tries="
		if room := base64.RawStdEncoding.DecodedLen(maxMetadata - len(b) - len(name)); room > 0 {
			b = base64.RawStdEncoding.AppendEncode(append(b, name...), failed(r.mark, r.tries, room))
		}
	}
	return string(b)
}

// runs are the gaps and lengths of spans.
func runs(mark int64, spans []span) (b []byte) {
	for _, s := range spans {
		b = binary.AppendUvarint(b, uint64(s.from-mark))
		b = binary.AppendUvarint(b, uint64(s.to-s.from))
		mark = s.to
	}
	return b
}

// bits has one for each offset.
func bits(mark int64, spans []span) []byte {
	b := make([]byte, (spans[len(spans)-1].to-mark+7)/8)
	for _, s := range spans {
		for o := s.from - mark; o < s.to-mark; o++ {
			b[o/8] |= 1 << (o % 8)
		}
	}
	return b
}

// failed are the gaps, lengths and tries of as many spans as fit.
func failed(mark int64, spans []span, room int) (b []byte) {
	for _, s := range spans {
		next := binary.AppendUvarint(b, uint64(s.from-mark))
		next = binary.AppendUvarint(next, uint64(s.to-s.from))
		next = binary.AppendUvarint(next, uint64(s.tries))
		if len(next) > room {
			break
		}
		b, mark = next, s.to
	}
	return b
}

// parseRow reads what text wrote. ours is false for any other commit: then the group was
// another system's, and is taken over from its offset on.
func parseRow(mark int64, text string) (r row, ours bool, err error) {
	head, rest, _ := strings.Cut(text, " ")
	if head != version {
		if strings.HasPrefix(head, "tidemill") {
			return row{}, false, fmt.Errorf("the commit is of the kind %.20q, this process knows %q only: use a newer one", head, version)
		}
		return row{mark: mark, Base: mark, Handed: mark + maxAhead}, false, nil
	}
	r.mark = mark
	for field := range strings.FieldsSeq(rest) {
		name, v, _ := strings.Cut(field, "=")
		if err := r.field(name, v); err != nil {
			return row{}, true, fmt.Errorf("the commit's metadata is damaged at %.40q: %w", field, err)
		}
	}
	var ahead uint64
	for _, a := range r.ahead {
		ahead += uint64(a.to - a.from)
	}
	if uint64(r.mark-r.Base)+ahead != r.Settled.Total()+r.Void+r.Lost {
		return row{}, true, fmt.Errorf("the commit does not add up: offset %d with %.200q", mark, text)
	}
	return r, true, nil
}

func (r *row) field(name, v string) error {
	switch name {
	case "topic":
		id, err := hex.DecodeString(v)
		if err == nil && copy(r.Topic[:], id) != len(r.Topic) {
			err = fmt.Errorf("an id has %d bytes", len(r.Topic))
		}
		return err
	case "runs", "bits", "tries":
		b, err := base64.RawStdEncoding.DecodeString(v)
		if err != nil {
			return err
		}
		switch name {
		case "runs":
			r.ahead, err = parseRuns(r.mark, b, false)
		case "tries":
			r.tries, err = parseRuns(r.mark, b, true)
		default:
			r.ahead, err = parseBits(r.mark, b)
		}
		return err
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return err
	}
	switch name {
	case "base":
		r.Base = n
	case "delivered":
		r.Settled.Delivered = uint64(n)
	case "skipped":
		r.Settled.Skipped = uint64(n)
	case "dead":
		r.Settled.Dead = uint64(n)
	case "void":
		r.Void = uint64(n)
	case "lost":
		r.Lost = uint64(n)
	case "starts":
		r.Starts = uint32(n)
	case "handed":
		r.Handed = n
	case "end":
		r.End = n
	case "by":
		r.By = uint32(n)
	case "since":
		r.Since = n
	case "from":
		r.From = n
	case "parts":
		r.Parts = n
	default:
		return fmt.Errorf("it is not known")
	}
	return nil
}

func parseRuns(mark int64, b []byte, tries bool) (spans []span, err error) {
	end := mark + maxAhead
	next := func() (v int64) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > maxAhead {
			err = fmt.Errorf("a number is cut off or too large")
			b = nil
			return 0
		}
		b = b[size:]
		return int64(n)
	}
	for len(b) > 0 {
		s := span{from: mark + next()}
		s.to = s.from + next()
		if tries {
			s.tries = int32(next())
		}
		if err == nil && (s.to > end || s.to <= s.from) {
			err = fmt.Errorf("a run goes beyond %d offsets", maxAhead)
		}
		if err != nil {
			return nil, err
		}
		spans, mark = append(spans, s), s.to
	}
	return spans, nil
}

func parseBits(mark int64, b []byte) (spans []span, err error) {
	if len(b) > maxAhead/8 {
		return nil, fmt.Errorf("there are more than %d bits", maxAhead)
	}
	for i := range int64(len(b)) * 8 {
		if b[i/8]&(1<<(i%8)) == 0 {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].to == mark+i {
			spans[n-1].to++
		} else {
			spans = append(spans, span{from: mark + i, to: mark + i + 1})
		}
	}
	return spans, nil
}

// state is the row to be committed now. A partition that is given up says exactly how far
// it was handed out.
func (p *partition) state(leaving bool) row {
	r := p.row
	r.mark = p.mark
	r.ahead, r.tries = nil, nil
	for o := p.mark; o < p.edge; o++ {
		s := &p.window[o&int64(len(p.window)-1)]
		switch {
		case s.state == done:
			r.ahead = extend(r.ahead, o, 0)
		case s.tries > 0:
			r.tries = extend(r.tries, o, s.tries)
		}
	}
	if p.mark > p.first {
		r.Starts = 0
	}
	r.Handed = p.mark + p.ahead
	if leaving {
		r.Handed = max(p.top, min(p.handed, r.Handed))
		r.Starts = max(r.Starts, 1) - 1
	}
	return r
}

func extend(spans []span, o int64, tries int32) []span {
	if n := len(spans); n > 0 && spans[n-1].to == o && spans[n-1].tries == tries {
		spans[n-1].to++
		return spans
	}
	return append(spans, span{o, o + 1, tries})
}
