package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/project"
)

func TestID(t *testing.T) {
	given := uuid.MustParse("33333333-3333-4333-8333-333333333333")
	if got := project.ID(given.String()); got != given {
		t.Errorf("ID of a UUID is %s, want itself", got)
	}
	shop := project.ID("Shop")
	if shop.Version() != 5 || shop != project.ID("shop") {
		t.Errorf("ID of a name is %s, want a UUIDv5, the same in any case of letters", shop)
	}
	if want := uuid.MustParse("200a13fd-f429-5694-87e6-547618e72768"); shop != want {
		t.Errorf("ID(shop) = %s, want %s: ids of names never change", shop, want)
	}
	if shop == project.ID("shop2") {
		t.Error("two names have one id")
	}
}

func TestCheckKey(t *testing.T) {
	for _, c := range []struct {
		name, key string
		ok        bool
	}{
		{"one character", "k", true},
		{"128 characters", strings.Repeat("k", 128), true},
		{"all that is printable", "!~azAZ09_-", true},
		{"empty", "", false},
		{"129 characters", strings.Repeat("k", 129), false},
		{"a space", "a b", false},
		{"a line break", "a\n", false},
		{"beyond ASCII", "schlüssel", false},
	} {
		if err := project.CheckKey(c.key); (err == nil) != c.ok {
			t.Errorf("%s: CheckKey(%q) = %v, want ok: %v", c.name, c.key, err, c.ok)
		}
	}
}

func TestHashOf(t *testing.T) {
	h := project.HashOf(tidemill.NewSecret("abc"))
	if got, want := fmt.Sprintf("%x", h[:]), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; got != want {
		t.Errorf("HashOf(abc) = %s, want its SHA-256 %s", got, want)
	}
}

func TestAProjectNeedsAnID(t *testing.T) {
	if (project.Project{Name: "shop"}).Check() == nil {
		t.Error("a project without an id is taken")
	}
	if err := (project.Project{ID: project.ID("shop")}).Check(); err != nil {
		t.Error(err)
	}
}
