package crm

import (
	"fmt"
	"slices"
	"testing"
)

func TestDid(t *testing.T) {
	var d did
	for i, c := range []struct {
		request string
		kept    string
	}{{"r1", "r1\n"}, {"", "r1\n\n"}, {"r2", "r1\n\nr2\n"}, {"r1", "r1\n\nr2\n"}} {
		if i == 0 && (d.has("") || d.has("r1") || d.kept() != nil || didOf(nil) != nil) {
			t.Error("something was done before anything was")
		}
		d = d.with(c.request)
		if string(d.kept()) != c.kept || !slices.Equal(didOf(d.kept()), d) || !d.has(c.request) || !d.has("") || d.has("r") || d.has("r3") {
			t.Errorf("with %q it is %q", c.request, d.kept())
		}
	}
	if own := did(nil).with(""); string(own.kept()) != "\n" || !slices.Equal(didOf(own.kept()), own) || !own.has("") || own.has("r1") {
		t.Errorf("its own is %q", own.kept())
	}
	for i := range 100 {
		d = d.with(fmt.Sprint("later", i))
	}
	if len(d) != mostDid+1 || !slices.Contains(d, "") || !d.has("later99") || d.has(fmt.Sprint("later", 99-mostDid)) || !d.has(fmt.Sprint("later", 100-mostDid)) {
		t.Errorf("after many: %q", d)
	}
}
