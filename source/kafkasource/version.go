package kafkasource

import (
	"maps"
	"time"

	"github.com/tidemill/tidemill"
)

// A lineage is a stretch of a partition's log in which a later record of a key has a larger offset
// than an earlier one, wherever the earlier one was. It ends where offsets begin anew (the topic is
// made anew, brokers went back), and where keys move (the topic has more partitions).
type lineage struct {
	Since int64 // minutes since 1970 when it began; later ones have more. 0: there is none
	From  int64 // the offset at which it began
	Parts int64 // how many partitions the topic had
}

// offsetBits is how many bits of a version are the offset within its lineage: 5 * 10^11 records of a
// partition. The 24 bits above them are the minutes since 2020, and last until 2051.
const (
	offsetBits = 39
	epochBegan = 26_297_280 // minutes from 1970 to 2020
)

// orNext is the lineage itself, or the next one from an offset on where it has ended.
func (l lineage) orNext(from int64, parts int, ended bool, now time.Time) lineage {
	if l.Since > 0 && !ended && l.Parts == int64(parts) && from-l.From < 1<<(offsetBits-1) {
		return l
	}
	return lineage{max(now.Unix()/60, l.Since+1, epochBegan+1), from, int64(parts)}
}

// number is the version of the record at an offset. Of those before the lineage, which somebody went
// back to, all have the same.
func (l lineage) number(offset int64) uint64 {
	return uint64(l.Since-epochBegan)<<offsetBits | uint64(max(offset-l.From, 0))
}

// Version is a number of a record that was received, for destinations that keep the newest by it:
// a later record of a key has a larger one, or the same one where somebody set the group back. It
// is the same at every redelivery but where the topic has been made anew, or was given more
// partitions, in between: then it is larger.
func (s *Source) Version(m *tidemill.Message) uint64 {
	if all := s.lineages.Load(); all != nil {
		if l, ok := (*all)[m.Mark.Shard]; ok {
			return l.number(int64(m.Mark.Lo))
		}
	}
	return 0
}

// trace lets Version know the lineages of partitions. Those of partitions that others have now are
// kept for records that are still worked on. s.mu is held.
func (s *Source) trace(parts []*partition) {
	all := map[uint32]lineage{}
	if known := s.lineages.Load(); known != nil {
		maps.Copy(all, *known)
	}
	for _, p := range parts {
		all[uint32(p.id)] = p.row.lineage
	}
	s.lineages.Store(&all)
}
