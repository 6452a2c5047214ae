package window

import (
	"testing"
)

func TestParseID(t *testing.T) {
	for _, id := range []string{"b/1", "a/b/17", "\xff/0", "//3"} {
		if batch, revision, ok := ParseID(id); !ok || ID(batch, revision) != id {
			t.Errorf("%q is %q, %d, %v", id, batch, revision, ok)
		}
	}
	for _, id := range []string{"", "b", "b/", "/1", "b/-1", "b/01", "b/+1", "b/1x", "b/99999999999999999999"} {
		if batch, revision, ok := ParseID(id); ok {
			t.Errorf("%q is %q, %d", id, batch, revision)
		}
	}
}

func TestOptions(t *testing.T) {
	if o, err := (Options{}).WithDefaults(); err != nil || o.Window.Seconds() != 60 || o.Lease.Seconds() != 30 || o.Now == nil {
		t.Errorf("defaults %+v, %v", o, err)
	}
	for _, o := range []Options{{Window: -1}, {Lease: -1}, {Window: 1}} {
		if _, err := o.WithDefaults(); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
