//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
)

// casesEnv says how many cases each resource gets: the operations under one first word of a path.
const casesEnv = "TIDEMILL_API_CASES"

// checks are those of Schemathesis that compare answers with the description. Two are left out:
// a wrong token may be answered 429, and GET dead/delete shows the dead letter of that id, which
// the description has under another path.
const checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,negative_data_rejection,unsupported_method"

// TestAnswersAreThoseThatAreDescribed has Schemathesis ask an instance of all systems for whatever
// its description allows, and for much that it does not: none is a server's error, and each answer
// is one that is described. Whatever was changed by it, the books balance.
func TestAnswersAreThoseThatAreDescribed(t *testing.T) {
	t.Parallel()
	cases := 100
	if s := os.Getenv(casesEnv); s != "" {
		var err error
		if cases, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	in := newSeeded(t)
	sdk, err := filepath.Abs(filepath.Join("..", "sdk"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(in.settings(cases)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(sdk, "venv", "bin", "st"), "run", "http://"+in.Addr+operation.Prefix+"openapi.json",
		"--header", "Authorization: Bearer "+in.Token(), "--checks", checks, "--phases", "coverage,fuzzing", "--continue-on-failure",
		"--request-timeout", "20", "--generation-database", "none", "--suppress-health-check", "all", "--warnings", "off", "--no-color", "--workers", "2")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+sdk, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out[max(0, bytes.LastIndex(out, []byte("= SUMMARY"))):])
	var books api.Audits
	in.get("audit", &books)
	if !books.Balanced {
		t.Errorf("the books do not balance: %+v", books)
	}
}

// settings are those of Schemathesis: where what there is to find can be asked for, and how many
// cases each resource gets.
func (in *seeded) settings(cases int) string {
	in.t.Helper()
	var letters, seqs, events []string
	in.dead(func(l *api.DeadLetter) {
		letters, seqs = append(letters, l.ID), append(seqs, fmt.Sprint(l.Seq))
	})
	for n := range sown {
		events = append(events, eventID(n), fmt.Sprint("e-", n))
	}
	var windows []string
	c := in.client()
	for w, err := range windowsapi.ListWindows.Each(in.t.Context(), c, &windowsapi.WindowFilter{}) {
		if err != nil {
			in.t.Fatal(err)
		}
		windows = append(windows, w.ID)
	}
	known := map[string][]string{
		"path.letter":       slices.Concat(letters, seqs),
		"path.name":         {"delivery.refusing", "delivery.away", "delivery", "crm-events", "crm", "analytics", "windows", "bridge", "refusing", "away"},
		"path.id":           slices.Concat(events, windows),
		"path.site":         {"shop", "club"},
		"path.batch":        batches,
		"query.id":          slices.Concat(letters, events, windows),
		"query.seq":         seqs,
		"query.batch":       batches,
		"query.tenant":      {"club", "shop"},
		"query.project":     {"shop"},
		"query.site":        {"shop"},
		"query.type":        {"app.ordered", "member.scored", "page_view"},
		"query.distinct_id": {"user-0", "user-1"},
		"query.externalId":  {"m-0", "m-1"},
		"query.since":       {"2026-01-31", "24h", "2026-01-15T10:00:00Z"},
		"query.until":       {"2026-01-31", "1s", "2126-01-15T10:00:00Z"},
		"query.pipeline":    {"delivery.refusing", "crm"},
		"query.partner":     {"refusing", "away"},
		"query.system":      {"delivery", "crm", "analytics", "windows", "bridge"},
		"query.kind":        {"validation", "business", "event", "mention"},
		"query.family":      {"events", "mentions"},
		"query.q":           {"berlin", "numMentions:>1"},
		"query.for":         {"1ms", "10m"},
		"query.state":       {"waiting", "delayed", "failed", "active", "parked"},
		"body.since":        {"2026-01-31", "24h"},
		"body.tenant":       {"club"},
		"body.type":         {"app.ordered", "member.scored"},
	}
	var b strings.Builder
	fmt.Fprintln(&b, `hooks = "described"`)
	fmt.Fprintln(&b, "[parameters]\n\"query.follow\" = false") // it would go on for ever
	for name := range known {
		fmt.Fprintf(&b, "%q = {dictionary = %q, probability = 0.7}\n", name, strings.ReplaceAll(name, ".", "-"))
	}
	for name, values := range known {
		text, err := json.Marshal(values)
		if err != nil {
			in.t.Fatal(err)
		}
		fmt.Fprintf(&b, "[dictionaries.%s]\nvalues = %s\n", strings.ReplaceAll(name, ".", "-"), text)
	}
	for resource, operations := range in.resources() {
		fmt.Fprintf(&b, "[[operations]]\ninclude-path-regex = \"^%s%s(/|$)\"\ngeneration.max-examples = %d\n", operation.Prefix, resource, max(1, cases/operations))
	}
	return b.String()
}

// resources are the first words of paths, with how many operations each has.
func (in *seeded) resources() map[string]int {
	in.t.Helper()
	var doc struct{ Paths map[string]map[string]any }
	in.get("openapi.json", &doc)
	of := map[string]int{}
	for path, methods := range doc.Paths {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, operation.Prefix), "/")
		of[first] += len(methods)
	}
	return of
}
