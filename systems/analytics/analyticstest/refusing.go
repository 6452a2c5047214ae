package analyticstest

import (
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

var refusing = []promise{
	{name: "A3 project, name and distinct id are required", reason: "an event without them is nobody's", holds: required},
	{name: "A3 illegal distinct ids are refused in every spelling", reason: "one such id would make many people one person", holds: illegalIDs},
	{name: "A3 an id that only looks illegal is taken", reason: "people are called such things", holds: legalIDs},
	{name: "A3 a project that is not there is refused", reason: "nobody would ever look at its events", holds: unknownProject},
	{name: "A3 refusals are counted by reason, and a warning says what and why", reason: "a project's owner sees warnings, not dead letters", holds: warningSays},
	{name: "A3 projects that cannot be asked cost no event", reason: "an outage of a table is no reason to refuse", holds: projectsAway},
	{name: "A3 projects that cannot be asked cost no event of a batch of one", reason: "then nothing else of the batch says that they are away", holds: projectsAwayFromOne},
}

func required(b *bench) {
	n := 0
	for _, field := range []string{"project_id", "event_name", "distinct_id"} {
		b.put(entry("e", "u", field, ""), entry("e", "u", field, "")) // an empty one is absent
		whole := map[string]string{"project_id": Project.ID.String(), "event_name": "e", "distinct_id": "u"}
		for _, v := range []string{"", `""`, "null"} {
			var s strings.Builder
			for _, f := range []string{"project_id", "event_name", "distinct_id"} {
				switch {
				case f != field:
					fmt.Fprintf(&s, ",%q:%q", f, whole[f])
				case v != "":
					fmt.Fprintf(&s, ",%q:%s", f, v)
				}
			}
			b.put(object("{" + s.String()[1:] + "}"))
		}
		n += 5
	}
	b.put(entry("e", "u", "project_id", "not-a-uuid"))
	b.put(entry("good", "u"))
	b.process()
	b.wantBooks(1, 0, uint64(n)+1)
	for _, l := range b.letters() {
		if l.Kind != tidemill.Validation || !strings.Contains(l.Cause, "invalid_event") {
			b.Errorf("letter %s: kind %v, cause %q", l.ID, l.Kind, l.Cause)
		}
	}
	if got := len(b.warnings("invalid_event")); got != 10 { // those whose project is known
		b.Errorf("%d warnings, want 10", got)
	}
	if b.show("u") == nil {
		b.Error("the good event's person is not stored")
	}
}

func illegalIDs(b *bench) {
	n := 0
	bad := func(id string) {
		b.put(entry("flat", id), object(fmt.Sprintf(`{"project_id":%q,"event_name":"json","distinct_id":%q}`, Project.ID, id)))
		n += 2
	}
	for _, id := range []string{"anonymous", "null", "undefined", "none", "nil", "[object Object]", "NaN", "true", "false", "0", "guest"} {
		for _, s := range []string{id, strings.ToUpper(id), "  " + id + "\t", `"` + id + `"`, `'` + id + `'`, `" ` + id + ` "`} {
			bad(s)
		}
	}
	for _, s := range []string{" ", "\t\n", `""`, `''`, `"  "`, "\u00a0", "\ufeff"} {
		bad(s)
	}
	for _, s := range []string{"0", "true", "false"} {
		b.put(object(fmt.Sprintf(`{"project_id":%q,"event_name":"bare","distinct_id":%s}`, Project.ID, s)))
		n++
	}
	b.put(entry("good", "u"))
	b.process()
	for _, e := range b.events() {
		if e.Name != "good" {
			b.Errorf("an event of distinct id %q was stored", e.DistinctID)
		}
	}
	b.wantBooks(1, 0, uint64(n))
	for _, l := range b.letters() {
		if l.Kind != tidemill.Validation {
			b.Errorf("letter %s is of kind %v", l.ID, l.Kind)
		}
	}
	if got := len(b.warnings("illegal_distinct_id")); got < n-4 { // bare true and false may be of the wrong kind, too
		b.Errorf("%d warnings of %d refusals", got, n)
	}
}

func legalIDs(b *bench) {
	ids := []string{"anonymous2", "nullable", "00", "guest-1", "trueman", "falsetto", "o", "[object]", "nanny", `"a"`, "true false", strings.Repeat("é", 255)}
	for _, id := range ids {
		b.put(entry("e", id))
	}
	b.process()
	b.wantBooks(uint64(len(ids)), 0, 0)
	for _, id := range ids {
		if p := b.somebody(id); p.ID != derived(id) {
			b.Errorf("the person of %q is %v, want %v", id, p.ID, derived(id))
		}
	}
}

func unknownProject(b *bench) {
	other := uuid.MustParse("44444444-4444-4444-8444-444444444444")
	b.put(entry("good", "u"), entry("stray", "u", "project_id", other.String()), entry("good too", "u"))
	b.process()
	b.wantBooks(2, 0, 1)
	if l := b.letter(); l.Kind != tidemill.Validation || !strings.Contains(l.Cause, "unknown_project") {
		b.Errorf("kind %v, cause %q", l.Kind, l.Cause)
	}
	ws, err := b.Warehouse.Warnings(b.Context(), warehouse.WarningFilter{Project: other})
	b.must(err)
	if len(ws) != 1 || ws[0].Type != "unknown_project" || ws[0].Event != "stray" {
		b.Errorf("warnings of the project that is not there: %+v", ws)
	}
}

func warningSays(b *bench) {
	b.put(entry("signup", "guest"), entry("pay", "u", "timestamp", "soon"), identify("v", "null"))
	s := b.start(options(), nil)
	b.drained()
	s.stop()
	want := map[string]uint64{"illegal_distinct_id": 1, "invalid_event": 1, "cannot_merge_with_illegal_distinct_id": 1}
	if got := s.Warnings.Counts(); !maps.Equal(got, want) {
		b.Errorf("counted are %v, want %v", got, want)
	}
	check := func(ws []warehouse.Warning, event, distinct, reason string) {
		b.Helper()
		if len(ws) != 1 || ws[0].Event != event || ws[0].Distinct != distinct || !strings.Contains(ws[0].Reason, reason) || ws[0].At.IsZero() {
			b.Errorf("warnings are %+v, want one of event %s of %q that speaks of %q", ws, event, distinct, reason)
		}
	}
	check(b.warnings("illegal_distinct_id"), "signup", "guest", "distinct_id")
	check(b.warnings("invalid_event"), "pay", "u", "timestamp")
}

func projectsAwayFromOne(b *bench) {
	away := &tenants{}
	away.find.fail(3, errOutage)
	s := b.start(options(), func(p *analytics.Parts) {
		away.Projects = p.Projects
		p.Projects = away
	})
	for i, m := range []*tidemill.Message{entry("plain", "u"), identify("v", "anon")} {
		if i > 0 {
			away.find.fail(3, errOutage)
		}
		b.put(m)
		b.drained()
	}
	s.stop()
	b.wantBooks(2, 0, 0)
	if n := len(b.warnings("unknown_project")); n > 0 || away.find.called() < 8 {
		b.Errorf("%d events were refused; projects were asked %d times", n, away.find.called())
	}
	if got := b.somebody("anon").ID; got != derived("v") {
		b.Errorf("the anonymous id belongs to %v", got)
	}
}

func projectsAway(b *bench) {
	for i := range 20 {
		b.put(entry(fmt.Sprint("e", i), "u"))
	}
	away := &tenants{}
	away.find.fail(2, errOutage)
	b.processWith(options(), func(p *analytics.Parts) {
		away.Projects = p.Projects
		p.Projects = away
	})
	b.wantBooks(20, 0, 0)
	if away.find.called() < 3 {
		b.Errorf("projects were asked %d times: the outage was never met", away.find.called())
	}
}
