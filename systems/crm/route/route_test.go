package route_test

import (
	"testing"

	"github.com/tidemill/tidemill/systems/crm/route"
)

func TestFind(t *testing.T) {
	var table route.Table[string]
	for _, p := range []string{"member.*", "member.status.*", "member.created", "m*"} {
		if err := table.Add(p, p); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ typ, want string }{
		{"member.created", "member.created"},
		{"member.deleted", "member.*"},
		{"member.status.changed", "member.status.*"},
		{"member.", "member.*"},
		{"member", "m*"},
		{"player.created", ""},
	} {
		v, name, ok := table.Find(c.typ)
		if v != c.want || name != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q by %q, want %q", c.typ, v, name, c.want)
		}
	}
	if err := table.Add("*", "all"); err != nil {
		t.Fatal(err)
	}
	if v, name, _ := table.Find("player.created"); v != "all" || name != "*" {
		t.Errorf("any other: %q by %q", v, name)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	var table route.Table[int]
	for _, p := range []string{"a", "a.*", "*"} {
		if err := table.Add(p, 1); err != nil {
			t.Fatal(err)
		}
		if table.Add(p, 2) == nil {
			t.Errorf("%q is there twice", p)
		}
	}
	for _, p := range []string{"", "a b", "*.created", "a.*.b", "a/b"} {
		if table.Add(p, 1) == nil {
			t.Errorf("%q was taken", p)
		}
	}
}
