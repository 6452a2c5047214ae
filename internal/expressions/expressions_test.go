package expressions

import (
	"strings"
	"testing"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
)

func TestWhatCouldRunOrGrowWithTheDataIsRefused(t *testing.T) {
	names := types.Map{"a": types.Any, "b": types.Any, "t": types.String}
	for source, want := range map[string]string{
		`a + b + a`:                     "",
		`upper(t) == "X"`:               "",
		`string(a)`:                     "string",
		``:                              "1 to 4096 bytes",
		strings.Repeat(" ", 4097):       "1 to 4096 bytes",
		strings.Repeat("1+", 600) + "1": "nodes",
		`c`:                             "unknown name c",
		`map(a, # + 1)`:                 "map",
		`all(a, {# > 1})`:               "all",
		`1..5`:                          "a range",
		`2 ** 8`:                        "a power",
		`let x = 1; x`:                  "let",
		`$env["a"]`:                     "$env",
		`now()`:                         "now",
		`repeat(t, 1000000)`:            "repeat",
		`t matches "^x"`:                "a regular expression",
	} {
		_, _, err := Compile(source, Options{Names: names})
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) || strings.Contains(got, "\n") {
				t.Errorf("%.40q: %v; want %q", source, err, want)
			}
		} else if want != "" {
			t.Errorf("%.40q is taken; want %q", source, want)
		}
	}
}

func TestNamesPatternsAndFunctionsOfOnesOwn(t *testing.T) {
	o := Options{Names: types.Map{"a": types.Any, "b": types.Any, "t": types.String}, Patterns: true, Builtins: []string{"string"},
		More: []expr.Option{expr.AsBool()}}
	p, used, err := Compile(`t matches "^x+$" && string(b) == "1" && t != ""`, o)
	if err != nil || strings.Join(used, " ") != "b t" {
		t.Fatalf("used %v, %v", used, err)
	}
	if v, err := expr.Run(p, map[string]any{"t": "xx", "b": 1}); v != true || err != nil {
		t.Errorf("its value is %v, %v", v, err)
	}
	if _, _, err := Compile(`"x" matches t`, o); err == nil || !strings.Contains(err.Error(), "no text of the setting") {
		t.Errorf("a pattern of the data: %v", err)
	}
	if _, _, err := Compile(`len(t)`, o); err == nil {
		t.Error("a number is taken for a condition")
	}
}
