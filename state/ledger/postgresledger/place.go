package postgresledger

import (
	"sync"

	"github.com/jackc/pgx/v5/pgtype"
)

// places remembers where the rows are that this process has begun, by their tokens, so that
// their end need not look for them by key: that is two thirds of what it costs. A place may
// be wrong by then, and may hold another row: whoever goes there looks at key and token.
//
// There is one for each of the newest tokens. What is begun and never ended is overwritten.
type places struct {
	mu sync.Mutex // guards at; held for short work in memory only
	at [1 << 14]place
}

type place struct {
	token uint64 // 0: there is none
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

// take says where the row of a token is, if it is known, and forgets it.
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
