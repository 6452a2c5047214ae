package postgresledger

import (
	"sync"

	"github.com/jackc/pgx/v5/pgtype"
)

// places remembers the places of the rows that this process has begun, by their tokens, so
// that their end need not look them up by key: that is two thirds of the cost of an end. A
// place may be outdated and hold another row: its reader checks key and token.
//
// Each of the newest tokens has one. Entries that are begun and never ended are
// overwritten.
type places struct {
	mu sync.Mutex // guards at; held for short work in memory only
	at [1 << 14]place
}

type place struct {
	token uint64 // 0: none
	tid   pgtype.TID
}

func (p *places) slot(token uint64) *place { return &p.at[token%uint64(len(p.at))] }

// keep notes where rows are.
func (p *places) keep(rows []place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rows {
		*p.slot(r.token) = r
	}
}

// take returns the place of a token's row, if it is known, and forgets it.
func (p *places) take(token uint64) (tid pgtype.TID, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.slot(token)
	if s.token != token || token == 0 {
		return tid, false
	}
	tid, *s = s.tid, place{}
	return tid, true
}
