package rounds

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTablesAreMadeOfResults makes a table of some rows and figures, and leaves the rest of the page.
func TestTablesAreMadeOfResults(t *testing.T) {
	folder := t.TempDir()
	o := parsed(t, "-run", "mine", "-out", filepath.Join(folder, "queue.jsonl"))
	rows := []any{&result{Common: Common{Name: "limit: add"}, Rate: 1}, &result{Common: Common{Name: "mine: add"}, Rate: 1234567, CPU: 12.34}, &result{Common: Common{Name: "mine: end"}, Rate: 99.96, CPU: 3, Ratio: 0.456}}
	if err := keep(t.Context(), o, rows); err != nil {
		t.Fatal(err)
	}
	ask := "<!-- results queue; rows ^mine; cut mine: ; per_second jobs/s; of_limit of the limit; cpu_us µs; cpu_us*0.5 half -->\n"
	page := "before\n" + ask + "anything\n<!-- end of results -->\nafter\n"
	made, err := Tables([]byte(page), folder)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile("`go run.*:\n").ReplaceAllString(string(made), "ABOUT\n")
	want := "before\n" + ask + "ABOUT\n\n| | jobs/s | of the limit | µs | half |\n|---|---|---|---|---|\n| add | 1,234,567 |  | 12.3 | 6.17 |\n| end | 100.0 | 0.46 | 3.00 | 1.50 |\n<!-- end of results -->\nafter\n"
	if got != want {
		t.Errorf("the page is\n%s, want\n%s", got, want)
	}
	if about := "`go run ./bench test -run=mine` at "; !strings.Contains(string(made), about) || !strings.Contains(string(made), "medians of 3 rounds") {
		t.Errorf("the page does not say %s:\n%s", about, made)
	}
	if again, err := Tables(made, folder); err != nil || string(again) != string(made) {
		t.Errorf("made again it is\n%s (%v)", again, err)
	}
	for _, c := range []struct{ page, says string }{
		{"<!-- results none; per_second a -->\n<!-- end of results -->\n", "none.jsonl"},
		{"<!-- results queue; rows x; per_second a -->\n<!-- end of results -->\n", `no row of queue.jsonl matches "x"`},
		{"<!-- results queue; rows (; per_second a -->\n<!-- end of results -->\n", "missing closing"},
		{"<!-- results queue; per_minute a -->\n<!-- end of results -->\n", `none of its rows has the figure "per_minute"`},
		{"<!-- results queue; cpu_us*x a -->\n<!-- end of results -->\n", "invalid syntax"},
		{"<!-- results queue; per_second a -->\n", "not each has its end"},
	} {
		if _, err := Tables([]byte(c.page), folder); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.page, err, c.says)
		}
	}
}
