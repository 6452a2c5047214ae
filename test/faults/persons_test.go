//go:build servers

package faults

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/test/promise"
)

// outboxTable has the overrides on their way to ClickHouse.
const outboxTable = "tidemill_person_overrides"

// checkPersons compares PostgreSQL with what the events imply. An event sent without success
// may have left its distinct id.
func (w *world) checkPersons(events, all []*event, fault func(string, ...any)) {
	w.Helper()
	db := w.sql()
	defer db.Close(context.Background())
	rows, err := db.Query(context.Background(), `SELECT id::text, properties::text, identified FROM persons WHERE project_id = $1`, project)
	if err != nil {
		w.Fatal(err)
	}
	got := map[uuid.UUID]*promise.Person{}
	for rows.Next() {
		var id, properties string
		p := &promise.Person{Distinct: map[string]bool{}, Properties: map[string]string{}}
		if err := rows.Scan(&id, &properties, &p.Identified); err != nil {
			w.Fatal(err)
		}
		var bag map[string]json.RawMessage
		if err := json.Unmarshal([]byte(properties), &bag); err != nil {
			w.Fatal(err)
		}
		for k, v := range bag {
			p.Properties[k] = string(v)
		}
		p.ID = uuid.MustParse(id)
		got[p.ID] = p
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
			sent[e.Distinct] = true
			sent[e.Other] = true
		}
	}
	for rows.Next() {
		var distinct, id string
		if err := rows.Scan(&distinct, &id); err != nil {
			w.Fatal(err)
		}
		p := uuid.MustParse(id)
		if want := promise.PersonID(project, of.Of(distinct)); p != want || !sent[distinct] {
			fault("distinct id %q belongs to person %v, want %v; it was sent: %v", distinct, p, want, sent[distinct])
		}
		if got[p] == nil {
			fault("distinct id %q belongs to person %v, who is not there", distinct, p)
			continue
		}
		got[p].Distinct[distinct] = true
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	want := promise.Persons(project, valid(events), owners(events))
	for who, p := range want {
		p.Check(who, got[p.ID], fault)
	}
	for id, p := range got {
		if len(p.Distinct) == 0 {
			fault("person %v has no distinct id: %v", id, p)
		}
	}
	w.Logf("%d persons, %d of them expected", len(got), len(want))
}

// valid are the confirmed events that are any.
func valid(events []*event) (all []*promise.Event) {
	for _, e := range events {
		if e.confirmed > 0 && !e.kind.dead() {
			all = append(all, &e.Event)
		}
	}
	return all
}

// owners are the anonymous ids that they gave to users.
func owners(events []*event) promise.Owners {
	of := promise.Owners{}
	for _, e := range valid(events) {
		if e.Other != "" {
			of[e.Other] = e.Distinct
		}
	}
	return of
}
