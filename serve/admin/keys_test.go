package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
)

var shopOfKeys = project.Project{ID: project.ID("shop"), Name: "shop"}

// keyDesk is an API over projects: shop has a key of the configuration.
func keyDesk(t *testing.T, of project.Store) *desk {
	t.Helper()
	c := loaded(t)
	c.Projects = []config.Project{{Name: "shop", Key: tidemill.NewSecret("configured")}}
	return newDesk(t, admin.Parts{Common: &answer.Common{Projects: of}, Config: constant(c)})
}

func withShop(t *testing.T) project.Store {
	t.Helper()
	s := tableproject.Memory()
	for _, p := range []project.Project{shopOfKeys, {ID: project.ID("blog"), Name: "blog"}} {
		key := "configured"
		if p.Name == "blog" {
			key = "of blog"
		}
		if err := s.Ensure(t.Context(), p, project.HashOf(tidemill.NewSecret(key))); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestAKeyIsMadeShownOnceAndRevoked(t *testing.T) {
	s := withShop(t)
	d := keyDesk(t, s)
	var made api.MadeKey
	w := d.ask("POST", "projects/shop/keys", "")
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusOK || len(made.Secret) < 20 {
		t.Fatal(w.Code, w.Body, err)
	}
	hash := project.HashOf(tidemill.NewSecret(made.Secret))
	if p, err := s.ByKey(t.Context(), hash); err != nil || p.Name != "shop" {
		t.Errorf("the key is of %v, %v", p, err)
	}
	list := d.get("projects/shop/keys")
	if strings.Contains(list, made.Secret) || strings.Count(list, "\n") != 2 || !strings.Contains(list, `{"id":"`+made.ID+`","configured":false}`) || !strings.Contains(list, `"configured":true`) {
		t.Errorf("the keys are %s", list)
	}
	if by := d.get("projects/" + shopOfKeys.ID.String() + "/keys"); by != list {
		t.Errorf("by the project's id they are %s", by)
	}
	d.post("projects/shop/keys/"+made.ID+"/revoke", "")
	if _, err := s.ByKey(t.Context(), hash); !errors.Is(err, project.ErrUnknown) {
		t.Errorf("after it was revoked: %v", err)
	}
	refused(t, d.ask("POST", "projects/shop/keys/"+made.ID+"/revoke", ""), 404, "has no key")
	if strings.Contains(d.log.String(), made.Secret) {
		t.Error("the log has the key")
	}
}

func TestKeysThatCannotBeRevoked(t *testing.T) {
	d := keyDesk(t, withShop(t))
	configured := strings.Split(d.get("projects/shop/keys"), `"`)[3]
	refused(t, d.ask("POST", "projects/shop/keys/"+configured+"/revoke", ""), 409, "the configuration names this key")
	other := strings.Split(d.get("projects/blog/keys"), `"`)[3]
	refused(t, d.ask("POST", "projects/shop/keys/"+other+"/revoke", ""), 404, "has no key")
	refused(t, d.ask("POST", "projects/none/keys", ""), 404, "there is no project")
	refused(t, d.ask("GET", "projects/none/keys", ""), 404, "there is no project")
	refused(t, d.ask("POST", "projects/shop/keys?days=3", ""), 400, "days")
}

// projectsAway are projects whose store does not answer.
type projectsAway struct{ project.Store }

var errProjectsAway = &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("the projects are away")}

func (projectsAway) Find(context.Context, uuid.UUID) (project.Project, error) {
	return project.Project{}, errProjectsAway
}

func TestKeysWhereTheProjectsAreAway(t *testing.T) {
	d := keyDesk(t, projectsAway{withShop(t)})
	for _, c := range [][2]string{{"GET", "projects/shop/keys"}, {"POST", "projects/shop/keys"}, {"POST", "projects/shop/keys/0123456789abcdef/revoke"}} {
		if w := d.ask(c[0], c[1], ""); w.Code < 500 || !strings.Contains(w.Body.String(), "the projects are away") {
			t.Errorf("%s %s is answered %d %s", c[0], c[1], w.Code, w.Body)
		}
	}
}
