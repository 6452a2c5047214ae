package caller_test

import (
	"context"
	"net/netip"
	"testing"

	"github.com/tidemill/tidemill/serve/caller"
)

func TestARoleMayDoWhatTheOneBeforeItMay(t *testing.T) {
	all := []caller.Role{caller.Nobody, caller.Viewer, caller.Operator, caller.Admin}
	for i, has := range all {
		for j, needed := range all {
			if has.May(needed) != (i >= j) {
				t.Errorf("%v may do what %v is needed for: %v", has, needed, has.May(needed))
			}
		}
	}
}

func TestNobodyIsNoRoleThatIsGiven(t *testing.T) {
	for _, text := range []string{"nobody", "", "Admin", "root"} {
		var r caller.Role
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken for the role %v", text, r)
		}
	}
	for _, given := range []caller.Role{caller.Viewer, caller.Operator, caller.Admin} {
		text, _ := given.MarshalText()
		var r caller.Role
		if err := r.UnmarshalText(text); err != nil || r != given {
			t.Errorf("%s is read as %v: %v", text, r, err)
		}
	}
}

func TestAContextWithoutACallerIsOfNobody(t *testing.T) {
	if c := caller.From(context.Background()); c.Rights.MayAny(caller.Viewer) {
		t.Errorf("it is of %+v", c)
	}
	ada := caller.Key("ada", "password", netip.Addr{})
	if c := caller.From(caller.With(context.Background(), ada)); c != ada {
		t.Errorf("it is of %+v", c)
	}
}
