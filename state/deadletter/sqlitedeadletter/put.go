package sqlitedeadletter

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/internal/wire"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/internal/rules"
)

// nameOf is the name under which the dead letter is kept.
func nameOf(l *tidemill.DeadLetter) deadletter.Name {
	return deadletter.Name{Pipeline: l.Pipeline, Tenant: l.Message.Tenant, ID: l.Message.ID}
}

// Put implements deadletter.Store: one lookup and a few statements for many dead letters.
func (s *Store) Put(ctx context.Context, letters []tidemill.DeadLetter) error {
	if err := cmp.Or(ctx.Err(), rules.CheckPut(letters)); err != nil || len(letters) == 0 {
		return err
	}
	encoded := make([][]byte, len(letters)) // while no other writer waits
	sums := make([]uint64, len(letters))
	for i := range letters {
		l := &letters[i]
		encoded[i] = encodeMessage(l.Message)
		sums[i] = rules.Sum(l.Pipeline, l.Message.Tenant, l.Message.ID, encoded[i], l.Message.Payload, l.Row)
	}
	err := s.db.Write(ctx, func(tx *sqlitedb.Tx) error {
		found, err := lookupNames(tx, letters)
		if err != nil {
			return err
		}
		seq, err := s.room(tx, letters, found)
		if err != nil {
			return err
		}
		type change struct {
			r     *deadletter.Record
			body  int // index of the dead letter whose message it takes
			fresh bool
		}
		var changes []*change
		of := map[*deadletter.Record]*change{}
		replaced := map[string]int64{} // by pipeline
		for i := range letters {
			r := found[nameOf(&letters[i])]
			fresh := r == nil
			if fresh {
				r = new(deadletter.Record)
				found[nameOf(&letters[i])] = r
			}
			changed, another := r.Put(&letters[i])
			if !changed {
				continue
			}
			if another {
				replaced[r.Pipeline]++
			}
			if fresh {
				r.Seq = seq
				seq++
			}
			if c := of[r]; c != nil { // twice in one call
				c.body = i
				continue
			}
			c := &change{r, i, fresh}
			of[r] = c
			changes = append(changes, c)
		}
		for _, p := range slices.Sorted(maps.Keys(replaced)) {
			if err := (books{put: replaced[p], skipped: replaced[p]}).add(tx, p); err != nil {
				return err
			}
		}
		var fresh, died []*deadletter.Record
		var bodies []any
		for _, c := range changes {
			if c.fresh {
				fresh = append(fresh, c.r)
			} else {
				died = append(died, c.r)
			}
			l, sum := &letters[c.body], sums[c.body]
			if !c.r.Edited.IsZero() {
				sum = rules.SumOf(&c.r.Letter, encoded[c.body])
			}
			bodies = append(bodies, c.r.Seq, encoded[c.body], l.Message.Payload, l.Row, c.r.Original, sum)
		}
		if err := insert(tx, fresh); err != nil {
			return err
		}
		if err := rewrite(tx, died, false); err != nil {
			return err
		}
		if err := writeBodies(tx, bodies); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("put %d dead letters: %w", len(letters), err)
	}
	return nil
}

// writeBodies writes messages: of each its Seq, the encoded message, payload, row,
// original and checksum.
func writeBodies(tx *sqlitedb.Tx, args []any) error {
	_, err := tx.Bulk("INSERT INTO deadletter_body(seq,message,payload,row,original,sum) VALUES ", "(?,?,?,?,?,?)",
		" ON CONFLICT(seq) DO UPDATE SET message=excluded.message, payload=excluded.payload, row=excluded.row, original=excluded.original, sum=excluded.sum", args)
	return err
}

// room makes sure that the dead letters fit, counts them in the books, and takes as many
// numbers as there are new ones; it returns the first.
func (s *Store) room(tx *sqlitedb.Tx, letters []tidemill.DeadLetter, found map[deadletter.Name]*deadletter.Record) (first int64, err error) {
	fresh := map[string]int{}
	seen := map[deadletter.Name]bool{}
	var pipelines []string
	total := 0
	for i := range letters {
		n := nameOf(&letters[i])
		if found[n] != nil || seen[n] {
			continue
		}
		seen[n] = true
		if fresh[n.Pipeline] == 0 {
			pipelines = append(pipelines, n.Pipeline)
		}
		fresh[n.Pipeline]++
		total++
	}
	for _, p := range pipelines {
		b, err := readBooks(tx, p)
		if err != nil {
			return 0, fmt.Errorf("read the books of %q: %w", p, err)
		}
		there := int(b.put - b.replayed - b.skipped - b.lost)
		change := books{put: int64(fresh[p])}
		if over := there + fresh[p] - s.o.Max; over > 0 {
			if !s.o.Trim {
				return 0, deadletter.Full(p, fresh[p], there, s.o.Max)
			}
			if change.lost, err = trim(tx, p, over, found); err != nil {
				return 0, err
			}
			if change.lost < int64(over) {
				return 0, deadletter.Full(p, fresh[p], there, s.o.Max)
			}
		}
		if err := change.add(tx, p); err != nil {
			return 0, err
		}
	}
	if total == 0 {
		return 0, nil
	}
	var newest int64
	if err := tx.QueryRow("UPDATE deadletter_seq SET newest = newest + ? RETURNING newest", total).Scan(&newest); err != nil {
		return 0, fmt.Errorf("take numbers: %w", err)
	}
	return newest - int64(total) + 1, nil
}

// trim drops the oldest n held dead letters of a pipeline, except those that die again in
// this call, and says how many it dropped.
func trim(tx *sqlitedb.Tx, pipeline string, n int, dying map[deadletter.Name]*deadletter.Record) (int64, error) {
	var keep []int64
	for _, r := range dying {
		keep = append(keep, r.Seq)
	}
	var seqs []any
	err := each(tx, "SELECT seq FROM deadletter WHERE pipeline=? AND state=0 ORDER BY seq LIMIT ?", []any{[]byte(pipeline), n + len(keep)}, func(rows *sql.Rows) error {
		var seq int64
		err := rows.Scan(&seq)
		if len(seqs) < n && !slices.Contains(keep, seq) {
			seqs = append(seqs, seq)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find letters to trim: %w", err)
	}
	trimmed, err := tx.Bulk("DELETE FROM deadletter WHERE seq IN (VALUES ", "(?)", ")", seqs)
	if err != nil {
		return 0, fmt.Errorf("trim letters: %w", err)
	}
	return trimmed, nil
}

// insert adds dead letters.
func insert(tx *sqlitedb.Tx, rs []*deadletter.Record) error {
	args := make([]any, 0, 12*len(rs))
	for _, r := range rs {
		args = append(args, r.Seq, []byte(r.Pipeline), []byte(r.Tenant), []byte(r.ID), r.Mark.Shard, r.Mark.Hi, r.Mark.Lo,
			uint8(r.Kind), wire.Millis(r.First), wire.Millis(r.Last), r.Deaths, rules.EncodeHistory(r.History))
	}
	if _, err := tx.Bulk("INSERT INTO deadletter(seq,pipeline,tenant,id,shard,hi,lo,kind,first,last,deaths,history) VALUES ",
		"(?,?,?,?,?,?,?,?,?,?,?,?)", "", args); err != nil {
		return fmt.Errorf("add letters: %w", err)
	}
	return nil
}

// rewrite writes dead letters that have died once more: they are held.
func rewrite(tx *sqlitedb.Tx, rs []*deadletter.Record, damaged bool) error {
	args := make([]any, 0, 10*len(rs))
	for _, r := range rs {
		args = append(args, r.Seq, r.Mark.Shard, r.Mark.Hi, r.Mark.Lo, uint8(r.Kind), wire.Millis(r.Last), r.Deaths, r.Replays, rules.EncodeHistory(r.History), wire.Millis(r.Edited))
	}
	head := "UPDATE deadletter SET damaged=0, "
	if damaged {
		head = "UPDATE deadletter SET damaged=1, "
	}
	if _, err := tx.Bulk(head+"state=0, due=0, until=0, shard=v.column2, hi=v.column3, lo=v.column4, kind=v.column5, last=v.column6, deaths=v.column7, replays=v.column8, history=v.column9, edited=v.column10 FROM (VALUES ",
		"(?,?,?,?,?,?,?,?,?,?)", ") AS v WHERE seq=v.column1", args); err != nil {
		return fmt.Errorf("write letters that died again: %w", err)
	}
	return nil
}
