package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
)

func TestASessionAboutKeys(t *testing.T) {
	projects := tableproject.Memory()
	s := &session{T: t}
	s.serve(admin.Parts{NoAuth: true, Common: &answer.Common{Projects: projects}})
	s.types("project list", "No projects.")
	if err := projects.Ensure(t.Context(), project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret("first"))); err != nil {
		t.Fatal(err)
	}
	s.types("project list", "NAME  ID\nshop  "+project.ID("shop").String()+"\n")
	status, out, errs := s.run(t.Context(), "", "project make-key shop")
	key := project.HashOf(tidemill.NewSecret(strings.TrimSpace(out)))
	if _, err := projects.ByKey(t.Context(), key); status != 0 || err != nil || !strings.Contains(errs, "Nobody can see it later") {
		t.Fatal(status, out, errs, err)
	}
	id := strings.Fields(errs)[2]
	if _, list, _ := s.run(t.Context(), "", "project keys shop"); strings.Count(list, "\n") != 3 || !strings.Contains(list, id) || strings.Contains(list, strings.TrimSpace(out)) {
		t.Errorf("the keys are %s", list)
	}
	s.types("project revoke-key shop "+id, "Revoked "+id+": it is refused within a minute.\n")
	if _, err := projects.ByKey(t.Context(), key); !errors.Is(err, project.ErrUnknown) {
		t.Errorf("after it was revoked: %v", err)
	}
	s.fails("project revoke-key shop "+id, "has no key")
	s.fails("project keys none", "there is no project")
}
