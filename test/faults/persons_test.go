//go:build servers

package faults

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/google/uuid"
)

// outboxTable has the overrides on their way to ClickHouse.
const outboxTable = "tidemill_person_overrides"

// checkPersons compares PostgreSQL with what the events imply. An event sent without success
// may have left its distinct id.
func (w *world) checkPersons(events, all []*event, fault func(string, ...any)) {
	w.Helper()
	type row struct {
		properties map[string]string
		identified bool
		distinct   map[string]bool
	}
	db := w.sql()
	defer db.Close(context.Background())
	rows, err := db.Query(context.Background(), `SELECT id::text, properties::text, identified FROM persons WHERE project_id = $1`, project)
	if err != nil {
		w.Fatal(err)
	}
	got := map[uuid.UUID]*row{}
	for rows.Next() {
		var id, properties string
		r := &row{properties: map[string]string{}, distinct: map[string]bool{}}
		if err := rows.Scan(&id, &properties, &r.identified); err != nil {
			w.Fatal(err)
		}
		var bag map[string]json.RawMessage
		if err := json.Unmarshal([]byte(properties), &bag); err != nil {
			w.Fatal(err)
		}
		for k, v := range bag {
			r.properties[k] = string(v)
		}
		got[uuid.MustParse(id)] = r
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	rows, err = db.Query(context.Background(), `SELECT distinct_id, person_id::text FROM person_distinct_ids WHERE project_id = $1`, project)
	if err != nil {
		w.Fatal(err)
	}
	of := owners(all)
	sent := map[string]bool{} // those with a lost answer too
	for _, e := range all {
		if !e.kind.dead() && e.tries > 0 {
			sent[e.distinct] = true
			sent[e.other] = true
		}
	}
	for rows.Next() {
		var distinct, id string
		if err := rows.Scan(&distinct, &id); err != nil {
			w.Fatal(err)
		}
		p := uuid.MustParse(id)
		if want := personID(whose(of, distinct)); p != want || !sent[distinct] {
			fault("distinct id %q belongs to person %v, want %v; it was sent: %v", distinct, p, want, sent[distinct])
		}
		if got[p] == nil {
			fault("distinct id %q belongs to person %v, who is not there", distinct, p)
			continue
		}
		got[p].distinct[distinct] = true
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	want := persons(events)
	for _, who := range sortedKeys(want) {
		x, id := want[who], personID(who)
		p := got[id]
		if p == nil {
			fault("person %v of %s is not there", id, who)
			continue
		}
		if p.identified != x.identified || !maps.Equal(p.properties, x.properties) {
			fault("person of %s is identified=%v with %v, want %v %v", who, p.identified, p.properties, x.identified, x.properties)
		}
		for d := range x.distinct {
			if !p.distinct[d] {
				fault("person of %s has not the distinct id %q", who, d)
			}
		}
	}
	for id, p := range got {
		if len(p.distinct) == 0 {
			fault("person %v has no distinct id: %v", id, p)
		}
	}
	w.Logf("%d persons, %d of them expected", len(got), len(want))
}
