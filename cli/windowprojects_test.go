package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

func TestABatchIDOfSeveralProjects(t *testing.T) {
	projects := tableproject.Memory()
	for _, name := range []string{"news", "sport"} {
		if err := projects.Ensure(t.Context(), project.Project{ID: project.ID(name), Name: name}, project.HashOf(tidemill.NewSecret("key of "+name))); err != nil {
			t.Fatal(err)
		}
	}
	n := newNewspaper(t, windows.Options{Project: project.ID("news")}, window.Options{}, func(p *windowsapi.API) { p.Projects = projects })
	send := func(command, record string) {
		t.Helper()
		if status, out, errs := n.session.run(t.Context(), record, "window send --kind event --batch "+command); status != 0 {
			t.Fatalf("%d %s%s", status, out, errs)
		}
	}
	revision := func(i int64) string { return fmt.Sprint(day.UnixMilli() + i) }
	both := "b is in the projects news and sport: say which one is meant (--project NAME"
	send("b", news(1)) // it is the project's of the configuration
	send("b --project sport", news(1))
	send("c --project "+project.ID("sport").String(), news(2))
	if status, _, errs := n.session.run(t.Context(), news(1), "window send --kind event --batch b --project nix"); status != 1 || !strings.Contains(errs, `there is no project "nix"; there are news, sport`) {
		t.Errorf("into a project that is not there: %d %s", status, errs)
	}
	n.types("window list", `
~PROJECT +ID +STATE +RECORDS +AGE +TRIES +DETAIL
~news +b/`+revision(0)+` +active +1 +.*
~sport +b/`+revision(1)+` +active +1 +.*
~sport +c/`+revision(2)+` +active +1 +.*
`)
	n.types("window list --project news --json", `~\{"id":"b/`+revision(0)+`","batch":"b","project":"news",.*\}`)
	n.types("window list --batch b --project sport --json", `~\{"id":"b/`+revision(1)+`","batch":"b","project":"sport",.*\}`)
	n.types("window list --batch b -n 1 --json", `~\{"id":"b/`+revision(0)+`",.*\}`)
	n.fails("window list --project nix", `there is no project "nix"`)

	shows := func(command string, want ...string) {
		t.Helper()
		status, out, errs := n.session.run(t.Context(), "", "window show "+command)
		for _, line := range want {
			if status != 0 || !lineOf(out, line) {
				t.Errorf("%s: %d %s%s\nwant a line %s", command, status, out, errs, line)
			}
		}
	}
	n.fails("window show b", both)
	shows("b --project sport", "window +b/"+revision(1), "project  sport")
	shows("b/"+revision(0), "window +b/"+revision(0), "project  news")
	shows("c --records 0", "project  sport", `\{"globalEventId":2,.*`)
	n.fails("window show c --project news", "there is no window or batch id c")
	n.fails("window show b/"+revision(1)+" --project news", "there is no window or batch id b/"+revision(1))

	n.fails("window close b", both)
	n.types("window close b --project sport --json", `{"batch":"b","closed":true,"project":"sport"}`)
	shows("b --project news", "active .*")
	n.types("window close b --json", `{"batch":"b","closed":true,"project":"news"}`) // that of the other collects no more
	n.types("window close c --json", `{"batch":"c","closed":true,"project":"sport"}`)
	if st, err := n.windows.Stats(t.Context()); err != nil || st.Ready.Windows != 3 {
		t.Fatalf("%d windows are ready, want 3 (%v)", st.Ready.Windows, err)
	}
	for range 3 {
		n.settle(tidemill.Settlement{End: tidemill.Done, Fate: tidemill.Dead, CountTry: true, Kind: tidemill.Partner, Cause: "no answer"})
	}
	n.fails("window replay --batch b", both)
	n.fails("window replay --batch b --dry-run", both)
	n.fails("window replay --batch b -n 1", both)
	n.types("window replay --batch b --project news --json", `{"count":1}`)
	shows("b --project sport", "parked .*")
	n.fails("window replay b/"+revision(1)+" --project news", "no window that matches is parked")
	n.types("window replay b/"+revision(1)+" --json --dry-run", `{"count":1}`)
	n.types("window replay --all --project sport -n 1 --json --dry-run", `{"count":1}`)
	n.types("window replay --all --project sport --json", `{"count":2}`)
}

func TestBatchesAreTakenOverForAProject(t *testing.T) {
	projects := tableproject.Memory()
	for _, name := range []string{"news", "sport"} {
		if err := projects.Ensure(t.Context(), project.Project{ID: project.ID(name), Name: name}, project.HashOf(tidemill.NewSecret("key of "+name))); err != nil {
			t.Fatal(err)
		}
	}
	var whose uuid.UUID
	var prefix string
	var dry bool
	n := newNewspaper(t, windows.Options{Project: project.ID("news")}, window.Options{}, func(p *windowsapi.API) {
		p.Projects = projects
		p.Adopt = func(_ context.Context, begin string, id uuid.UUID, dryRun bool) (windowsapi.AdoptedWindows, error) {
			prefix, whose, dry = begin, id, dryRun
			return windowsapi.AdoptedWindows{Batches: 1, Records: 2, Lost: 1}, nil
		}
	})
	for command, want := range map[string]string{"window adopt": "news", "window adopt --project sport": "sport", "window adopt --prefix old: --project " + project.ID("sport").String(): "sport"} {
		n.types(command, "2 records of 1 batch taken over. 1 id had no record any more: counted as dead.\n")
		if dry || whose != project.ID(want) || (prefix == "old:") != strings.Contains(command, "--prefix") {
			t.Errorf("%s: for %v under %q", command, whose, prefix)
		}
	}
	n.types("window adopt --dry-run", "2 records of 1 batch would be taken over. 1 id without a record would be counted as dead.\n")
	if !dry {
		t.Error("a dry run took something over")
	}
	n.fails("window adopt --project nix", `there is no project "nix"; there are news, sport`)
}
