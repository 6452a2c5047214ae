package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems"
)

// Each operation is explained, and each of its fields has a flag of its own: nothing that the API does is out of
// the command line's reach.
func TestEveryOperationCanBeCalled(t *testing.T) {
	all := described(systems.All())
	if len(all) < 100 {
		t.Fatalf("only %d operations", len(all))
	}
	for _, d := range all {
		if found, err := operationOf(all, strings.ToUpper(d.ID)); err != nil || found != d {
			t.Errorf("%s is not found: %v", d.ID, err)
		}
		var out bytes.Buffer
		if err := explainOperation(&out, d); err != nil || !strings.Contains(out.String(), d.Text) {
			t.Errorf("%s: %v\n%s", d.ID, err, &out)
		}
		var args []string
		for i := range d.Params {
			args = append(args, "--"+flagOf(&d.Params[i])+"=x")
		}
		fields, body, err := fieldsOf(d, args, nil)
		if err != nil {
			t.Errorf("%s: %v", d.ID, err)
		}
		for _, p := range d.Params {
			if p.In == "body" && body == nil || p.In != "body" && len(fields[p.Name]) != 1 {
				t.Errorf("%s: %s %q is given as %v", d.ID, p.In, p.Name, fields[p.Name])
			}
		}
	}
}
