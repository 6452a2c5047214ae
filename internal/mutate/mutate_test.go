package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tiny is a module in which some faults are noticed and some are not.
func tiny(t *testing.T) string {
	t.Helper()
	return written(t, map[string]string{
		"go.mod": "module example.org/tiny\n\ngo 1.24\n",
		"flow/flow.go": `package flow

type End int

const (
	Done End = iota
	Again
)

func Larger(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func Unseen(n int) End {
	n += 7
	if n > 8 {
		return Done
	}
	return Again
}
`,
		"flow/flow_test.go": `package flow

import "testing"

func TestLarger(t *testing.T) {
	if Larger(2, 1) != 2 || Larger(1, 2) != 2 {
		t.Error("not the larger one")
	}
}
`,
		"policy/policy.go": `package policy

import "example.org/tiny/flow"

func Stops(n int) bool { return flow.Unseen(n) == flow.Done }
`,
		"policy/policy_test.go": `package policy

import "testing"

func TestStops(t *testing.T) {
	if !Stops(2) || Stops(1) {
		t.Error("it does not stop at two")
	}
}
`})
}

// written is a folder with these files.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// ready returns the faults of a module's flow, and a runner for its tests.
func ready(t *testing.T, root string) (*runner, []fault) {
	t.Helper()
	m, err := load(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.faults([]string{"flow"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRunner(m, options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r, all
}

func TestEachFaultIsFoundByWhoNoticesIt(t *testing.T) {
	root := tiny(t)
	r, all := ready(t, root)
	want := map[string]verdict{
		"Larger: a > b → a >= b":           survived, // of two equal ones either is the larger
		"Larger: a > b → !(a > b)":         byUnit,
		"Larger: a > b → false && (a > b)": byUnit,
		"Unseen: n += 7 → n -= 7":          byImporters,
		"Unseen: n += 7 → (left out)":      byImporters,
		"Unseen: 7 → 8":                    byImporters,
		"Unseen: n > 8 → n >= 8":           byImporters,
		"Unseen: n > 8 → !(n > 8)":         byImporters,
		"Unseen: n > 8 → false && (n > 8)": byImporters,
		"Unseen: 8 → 9":                    byImporters,
		"Unseen: Done → Again":             byImporters,
		"Unseen: Again → Done":             byImporters,
	}
	before, err := os.ReadFile(filepath.Join(root, "flow", "flow.go"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.each(t.Context(), all, func(f fault, v verdict, said string, _ time.Duration) {
		name := strings.TrimPrefix(f.key(), "flow/flow.go ")
		w, ok := want[name]
		if !ok {
			t.Errorf("a fault that is not expected: %s", name)
			return
		}
		delete(want, name)
		if v != w {
			t.Errorf("%s: %v, want %v\n%s", name, v, w, said)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("no fault %q", name)
	}
	if after, err := os.ReadFile(filepath.Join(root, "flow", "flow.go")); err != nil || string(after) != string(before) {
		t.Errorf("the tree was changed, %v", err)
	}
}

func TestWhatDoesNotCompileIsNoFault(t *testing.T) {
	m, err := load(t.Context(), tiny(t))
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRunner(m, options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	all, err := m.faults([]string{"flow"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]verdict{}
	for i := range all {
		switch all[i].now {
		case "8": // n += 8
			all[i].text, all[i].now = "`a string`", "a string"
			want[all[i].key()] = notBuilt
		case "a >= b":
			want[all[i].key()] = survived
		case "n >= 8":
			want[all[i].key()] = byImporters
		}
	}
	got := map[string]verdict{}
	if err := r.each(t.Context(), all, func(f fault, v verdict, said string, _ time.Duration) {
		if _, ok := want[f.key()]; ok {
			got[f.key()] = v
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(want) != 3 || !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Functions and variables of all forms have copies that compile and behave alike.
func TestEveryFormOfDeclarationHasCopies(t *testing.T) {
	root := written(t, map[string]string{
		"go.mod": "module example.org/forms\n\ngo 1.24\n",
		"flow/flow.go": `package flow

type list[T any] struct{ l []T }

func (l *list[T]) add(many ...T) { l.l = append(l.l, many...); l.l = l.l[1:] }

func (list[T]) zero(_ int, s string) (n int, _ error) { n = len(s) + 2; return n, nil }

func same[T comparable, U any](a, b T, _ U) bool { return a == b }

var (
	size       = 3 // with a comment
	wide int64 = 5
)
`,
		"flow/flow_test.go": `package flow

import "testing"

func TestAll(t *testing.T) {
	l := &list[int]{}
	l.add(1, 2)
	l.add(3)
	n, _ := l.zero(0, "abc")
	if len(l.l) != 1 || n != 5 || !same(1, 1, "") || same(1, 2, "") || size != 3 || wide != 5 {
		t.Error("not as it was")
	}
}
`})
	r, all := ready(t, root)
	seen := map[string]int{}
	if err := r.each(t.Context(), all, func(f fault, v verdict, said string, _ time.Duration) {
		seen[f.fn]++
		if v != byUnit {
			t.Errorf("%s: %v\n%s", f, v, said)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, fn := range []string{"(*list).add", "list.zero", "same", "size", "wide"} {
		if seen[fn] == 0 {
			t.Errorf("no fault of %s was tried: %v", fn, seen)
		}
	}
}

func TestTheSameSeedDrawsTheSame(t *testing.T) {
	m, err := load(t.Context(), tiny(t))
	if err != nil {
		t.Fatal(err)
	}
	all, err := m.faults(nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(o options) (l []string) {
		drawn, err := draw(slices.Clone(all), &o)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range drawn {
			l = append(l, f.id())
		}
		return l
	}
	a := ids(options{sample: 5, seed: 3})
	if len(a) != 5 || !slices.Equal(a, ids(options{sample: 5, seed: 3})) {
		t.Errorf("%v is not drawn again", a)
	}
	if one := ids(options{id: a[2]}); !slices.Equal(one, a[2:3]) {
		t.Errorf("by its id %v was drawn, want %s", one, a[2])
	}
	if _, err := draw(all, &options{id: "nobody"}); err == nil {
		t.Error("an id that is not there is drawn")
	}
}

func TestTheReviewedListIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	write := func(text string) (*reviewed, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readReviewed(file)
	}
	f, g := fault{file: "a.go", fn: "F", was: "1", now: "2"}, fault{file: "a.go", fn: "F", was: "1", now: "2", nth: 2}
	r, err := write("# why\n\n" + f.key() + "\n\tit is only\n\ta hint\nb.go G: x → (left out)\n\tgone\n")
	if err != nil || r.reason[f.key()] != "it is only a hint" {
		t.Fatalf("%+v, %v", r, err)
	}
	if left := r.leaveOut([]fault{f, g}); len(left) != 1 || left[0].nth != 2 {
		t.Errorf("left are %v, want the second", left)
	}
	if u := r.unused(); len(u) != 1 || u[0] != "b.go G: x → (left out)" {
		t.Errorf("nobody meets %v", u)
	}
	for name, text := range map[string]string{
		"no reason": f.key() + "\n" + g.key() + "\n\twhy\n", "no reason at the end": f.key() + "\n",
		"a reason of nothing": "\twhy\n", "twice": f.key() + "\n\twhy\n" + f.key() + "\n\twhy\n"} {
		if _, err := write(text); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A role's backends run its contract: the one in memory counts as the role's own tests.
func TestARoleHasTheTestsOfItsBackendInMemory(t *testing.T) {
	root := written(t, map[string]string{
		"go.mod":             "module example.org/roles\n\ngo 1.24\n",
		"state/box/box.go":   "package box\n\nfunc Rule(n int) bool { return n > 3 }\n",
		"state/box/other.go": "package box\n\nfunc Other(n int) bool { return n < 3 }\n",
		"state/box/memorybox/memorybox.go": `package memorybox

import "example.org/roles/state/box"

func Fits(n int) bool { return box.Rule(n) }
`,
		"state/box/memorybox/memorybox_test.go": `package memorybox

import "testing"

func TestFits(t *testing.T) {
	if Fits(3) || !Fits(4) {
		t.Error("not the rule")
	}
}
`})
	m, err := load(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	of, err := m.faults([]string{"./state/box/box.go"})
	if err != nil || len(of) == 0 || slices.ContainsFunc(of, func(f fault) bool { return f.file != "state/box/box.go" }) {
		t.Fatalf("faults of one file: %v, %v", of, err)
	}
	r, err := newRunner(m, options{own: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := r.each(t.Context(), of, func(f fault, v verdict, said string, _ time.Duration) {
		if v != byUnit {
			t.Errorf("%s: %v\n%s", f, v, said)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.faults([]string{"state/box/none.go"}); err == nil {
		t.Error("a file that is not there is taken")
	}
}
