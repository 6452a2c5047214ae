package redisdeadletter_test

import (
	"errors"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

func (l *letters) edit(id, tenant, payload string) {
	l.Helper()
	if err := l.Edit(l.Context(), deadletter.Name{Pipeline: "p", Tenant: tenant, ID: id}, []byte(payload), ""); err != nil {
		l.Fatal(err)
	}
}

func TestAnEditIsAnotherEntryOfTheStream(t *testing.T) {
	l := onOne(t)
	l.put("a", `{"a":1}`, nil)
	before := l.list()[0]
	l.edit("a", before.Tenant, `{"a":2}`)
	es := l.entries()
	if len(es) != 1 || es[0].FieldValues["data"] != `{"a":2}` || es[0].FieldValues["original"] != `{"a":1}` || es[0].FieldValues["reason"] != before.Kind.String() {
		t.Fatalf("entries %+v", es)
	}
	if x := l.list()[0]; x.Seq != before.Seq || string(x.Payload) != `{"a":2}` || string(x.Original) != `{"a":1}` || x.Edited.IsZero() || x.Damaged != "" {
		t.Errorf("listed as %+v", x)
	}
	l.booked(tidemill.Books{Accepted: 1, Pending: 1})

	// Its original is found again where the companions were lost, and guarded by the checksum.
	l.do(append([]string{"DEL"}, keys(l.stream)[1:]...)...)
	edited := l.list()[0]
	if string(edited.Payload) != `{"a":2}` || string(edited.Original) != `{"a":1}` || edited.Edited.IsZero() || edited.Seq != before.Seq {
		t.Errorf("without companions: %+v", edited)
	}
	l.put("a", `{"a":2}`, nil)
	if x := l.list()[0]; string(x.Original) != `{"a":1}` || !x.Edited.Equal(edited.Edited) || len(x.History) != 2 {
		t.Errorf("after it died again: %+v", x)
	}
	l.edit("a", edited.Tenant, `{"a":3}`)
	rewrite(l, l.entries()[0], "original", "forged")
	if x := l.list()[0]; x.Damaged == "" {
		t.Errorf("a forged original is listed as %+v", x)
	}
	err := l.Edit(t.Context(), deadletter.Name{Pipeline: "p", Tenant: edited.Tenant, ID: "a"}, []byte("x"), "")
	if !errors.Is(err, deadletter.ErrDamaged) {
		t.Errorf("Edit of a damaged letter: %v", err)
	}
}

func TestAnEntryOfOthersIsEditedAsTheRowThatItIs(t *testing.T) {
	l := onOne(t)
	const row = `{"project_id":"33333333-3333-4333-8333-333333333333","event_name":"view"}`
	const mended = `{"project_id":"33333333-3333-4333-8333-333333333333","event_name":"buy"}`
	id, err := l.do("XADD", l.stream, "*", "data", row).ToString()
	if err != nil {
		t.Fatal(err)
	}
	l.edit(id, "33333333-3333-4333-8333-333333333333", mended)
	x := l.list()
	if len(x) != 1 || x[0].ID != id || string(x[0].Original) != row || string(x[0].Payload) != mended || string(x[0].Row) != mended || x[0].Damaged != "" {
		t.Fatalf("listed as %+v", x[0])
	}
	l.replay(1)
	s := l.Open("p")
	ms := l.received(s)
	if len(ms) != 1 || string(ms[0].Get(deadletter.RowHeader)) != mended {
		t.Fatalf("received %+v", ms)
	}
	l.deliver(s, ms...)
	l.booked(tidemill.Books{Accepted: 1, Settled: tidemill.Count{Delivered: 1}})
}
