package redisdeadletter_test

import (
	"fmt"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
)

// died are the ids of the dead letters of a cause, and the groups as text.
func (l *letters) died(cause string) (ids []string, groups string) {
	l.Helper()
	for x, err := range l.List(l.Context(), deadletter.Filter{Cause: cause}) {
		if err != nil {
			l.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	g, err := l.Groups(l.Context(), nil)
	if err != nil {
		l.Fatal(err)
	}
	for _, one := range g.Groups {
		groups += fmt.Sprintf("%d %s %s %s; ", one.Count, one.Pipeline, one.Kind, one.Cause)
	}
	return ids, groups + fmt.Sprint(g.Other)
}

// A program that knows of no groups may have filled the stream, and may go on beside this one while
// instances are replaced one by one.
func TestGroupsAreMadeWhereAnOlderProgramKeptNone(t *testing.T) {
	l := onOne(t)
	for i := range 5 {
		l.put(fmt.Sprint("id", i), "x", nil)
	}
	for _, k := range []string{"known", "group", "died", "causes", "pipelines", "groups:p", "owners:p"} {
		l.do("DEL", "{"+l.stream+"}:"+k)
	}
	l.open()
	for range 2 {
		if ids, groups := l.died("answered #"); fmt.Sprint(ids) != "[id0 id1 id2 id3 id4]" || groups != "5 p partner_error answered #; 0" {
			t.Errorf("found %v in %q", ids, groups)
		}
	}
	gone := l.list()[2]
	seq, p := fmt.Sprint(gone.Seq), "{"+l.stream+"}:"
	for _, command := range [][]string{{"XDEL", l.stream, l.entries()[2].ID}, {"HDEL", p + "meta", seq}, {"HDEL", p + "history", seq}, {"ZREM", p + "order", seq},
		{"ZREM", p + "held:p", seq}, {"HDEL", p + "ids", "1:p" + gone.ID}, {"HINCRBY", p + "books:p", "skipped", "1"}, {"INCR", p + "deaths"}} {
		if n, err := l.do(command...).AsInt64(); n < 1 || err != nil {
			t.Fatal(command, n, err)
		}
	}
	for range 2 {
		if ids, groups := l.died("answered #"); fmt.Sprint(ids) != "[id0 id1 id3 id4]" || groups != "4 p partner_error answered #; 0" {
			t.Errorf("found %v in %q", ids, groups)
		}
	}
	if n, err := l.Delete(t.Context(), deadletter.Filter{Cause: "answered #"}); n != 4 || err != nil {
		t.Error(n, err)
	}
	if ids, groups := l.died("answered #"); len(ids) > 0 || groups != "0" {
		t.Errorf("found %v in %q", ids, groups)
	}
}

// What a pipeline has beyond its largest groups is counted together; of a rare cause among them its
// dead letters alone are read.
func TestTheLargestGroupsAreShownAndEachIsFound(t *testing.T) {
	l := onOne(t)
	var ls []tidemill.DeadLetter
	for i := range 2 * deadletter.MaxGroups {
		cause := fmt.Sprintf("cause %c%c%c", 'a'+i/676, 'a'+i/26%26, 'a'+i%26)
		for k := range 1 + i/deadletter.MaxGroups { // the later ones are larger
			ls = append(ls, tidemill.DeadLetter{Pipeline: "p", Kind: tidemill.Partner, Cause: cause, Message: &tidemill.Message{ID: fmt.Sprint(i, " ", k)}})
		}
	}
	if err := l.Put(t.Context(), ls); err != nil {
		t.Fatal(err)
	}
	g, err := l.Groups(t.Context(), nil)
	if err != nil || len(g.Groups) != deadletter.MaxGroups || g.Groups[0].Count != 2 || g.Groups[deadletter.MaxGroups-1].Count != 2 || g.Other != deadletter.MaxGroups {
		t.Fatalf("%d groups, the last %+v, %d others, %v", len(g.Groups), g.Groups[len(g.Groups)-1], g.Other, err)
	}
	if ids, _ := l.died(ls[3].Cause); fmt.Sprint(ids) != "[3 0]" {
		t.Errorf("found %v", ids)
	}
}
