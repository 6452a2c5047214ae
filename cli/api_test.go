package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems"
)

// What a listing that ends early has printed is right, and it is said that there may be more.
func TestAListingThatEndsEarlyIsNoFailure(t *testing.T) {
	const line = `{"who":"ada","operation":"pauseQueue"}` + "\n"
	last := `{"whole":{"items":1,"looked":20000}}` + "\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status") { // who is asked first whether it is an instance
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"version":"v","data":"/nowhere","systems":[]}`))
			return
		}
		w.Header().Set("Content-Type", operation.LinesType)
		_, _ = w.Write([]byte(line + last))
	}))
	defer s.Close()
	status, out, errs := call(t, nil, "api", "--server", s.URL, "listChanges")
	if status != 0 || out != line || errs != "Looked at 20000 entries; there may be more behind them. A narrower filter looks further.\n" {
		t.Errorf("exit status %d, printed %q and %q", status, out, errs)
	}
	last = `{"whole":{"items":1}}` + "\n"
	if status, out, errs := call(t, nil, "api", "--server", s.URL, "listChanges"); status != 0 || out != line || errs != "" {
		t.Errorf("exit status %d, printed %q and %q", status, out, errs)
	}
	last = ""
	if status, _, errs := call(t, nil, "api", "--server", s.URL, "listChanges"); status != 1 || !strings.Contains(errs, "the listing was cut off") {
		t.Errorf("a listing that is cut off: exit status %d, %q", status, errs)
	}
}

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

func TestWhatGoesAwayIsListedSo(t *testing.T) {
	all := []*operation.Description{
		operation.GoingAway(operation.View[operation.None, operation.None]("showOld", "old", "Show it. It is old."), "2027-01-31", "2027-07-31", "Use showNew.").Description,
		operation.View[operation.None, operation.None]("showNew", "new", "Show it.").Description,
	}
	for _, c := range []struct {
		json bool
		want []string
		not  string
	}{
		{false, []string{"Goes away. Show it."}, "going"},
		{true, []string{`"going":"It goes away: deprecated since 2027-01-31, and gone from 2027-07-31 on at the earliest. Use showNew."`}, `"going":""`},
	} {
		var out bytes.Buffer
		cmd := &apiCmd{}
		cmd.JSON = c.json
		if err := cmd.list(command.Env{Out: &out}, all); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if strings.Count(out.String(), want) != 1 || strings.Contains(out.String(), c.not) {
				t.Errorf("want %q once in %s", want, &out)
			}
		}
	}
	var out bytes.Buffer
	if err := explainOperation(&out, all[0]); err != nil || !strings.Contains(out.String(), "Show it. It is old.\n\nIt goes away: deprecated since 2027-01-31") {
		t.Errorf("%v\n%s", err, &out)
	}
}
