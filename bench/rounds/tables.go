package rounds

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// A table of a page stands between a comment that asks for it and one that ends it:
//
//	<!-- results queue; rows process; cut tidemill ; per_second jobs/s; cpu_us own µs -->
//	<!-- end of results -->
//
// It is of the file queue.jsonl, of the rows that match, less what cut matches in their names, and
// has a column for each figure, with its heading. No rows: all of them. cpu_us*0.1 is a tenth of each.
var asked = regexp.MustCompile(`(?s)` + begins + `.*?<!-- end of results -->\n`)

const begins, ends = "<!-- results ", " -->\n"

// Tables is a page whose tables are made of the files of results in a folder.
func Tables(page []byte, folder string) ([]byte, error) {
	var failed error
	made := asked.ReplaceAllFunc(page, func(old []byte) []byte {
		ask, _, _ := strings.Cut(strings.TrimPrefix(string(old), begins), ends)
		table, err := tableOf(ask, folder)
		if err != nil && failed == nil {
			failed = fmt.Errorf("the table %q: %w", ask, err)
		}
		return fmt.Appendf(nil, begins+"%s"+ends+"%s<!-- end of results -->\n", ask, table)
	})
	if n := bytes.Count(page, []byte(begins)); failed == nil && n != len(asked.FindAll(page, -1)) {
		return nil, fmt.Errorf("%d tables are asked for, and not each has its end, <!-- end of results -->", n)
	}
	return made, failed
}

// wanted is what the comment before a table asks for.
type wanted struct {
	bench     string
	rows, cut *regexp.Regexp
	columns   []column
	headings  []string
}

// column is a figure, and by what it is multiplied.
type column struct {
	figure string
	times  float64
}

// parseColumn parses NAME or NAME*NUMBER.
func parseColumn(s string) (c column, err error) {
	name, times, is := strings.Cut(s, "*")
	c = column{name, 1}
	if is {
		c.times, err = strconv.ParseFloat(times, 64)
	}
	return c, err
}

func parseWanted(ask string) (w wanted, err error) {
	bench, parts, _ := strings.Cut(ask, ";")
	w = wanted{bench: bench, rows: regexp.MustCompile(""), cut: regexp.MustCompile("$")}
	for part := range strings.SplitSeq(parts, ";") {
		name, value, _ := strings.Cut(strings.TrimLeft(part, " "), " ")
		switch name {
		case "rows":
			w.rows, err = regexp.Compile(value)
		case "cut":
			w.cut, err = regexp.Compile(value)
		default:
			var c column
			c, err = parseColumn(name)
			w.columns, w.headings = append(w.columns, c), append(w.headings, value)
		}
		if err != nil {
			return w, err
		}
	}
	return w, nil
}

// tableOf makes one table, below a line that says what it is of.
func tableOf(ask, folder string) (string, error) {
	w, err := parseWanted(ask)
	if err != nil {
		return "", err
	}
	k, err := read(filepath.Join(folder, w.bench+".jsonl"))
	if err != nil {
		return "", err
	}
	lines := []string{k.about(), "", "| | " + strings.Join(w.headings, " | ") + " |", "|" + strings.Repeat("---|", len(w.columns)+1)}
	head, measured := len(lines), map[string]bool{}
	for _, name := range k.names {
		if !w.rows.MatchString(name) {
			continue
		}
		line := "| " + w.cut.ReplaceAllString(name, "") + " |"
		for _, c := range w.columns {
			v, has := k.figures[name][c.figure]
			measured[c.figure] = measured[c.figure] || has
			line += " " + figure(v*c.times) + " |"
		}
		lines = append(lines, line)
	}
	if len(lines) == head {
		return "", fmt.Errorf("no row of %s.jsonl matches %q", w.bench, w.rows)
	}
	for _, c := range w.columns {
		if !measured[c.figure] {
			return "", fmt.Errorf("none of its rows has the figure %q", c.figure)
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// about says what results are of.
func (k *kept) about() string {
	args := ""
	if len(k.Args) > 0 {
		args = " " + strings.Join(k.Args, " ")
	}
	medians := ""
	if k.Rounds > 1 {
		medians = fmt.Sprintf(", medians of %d rounds", k.Rounds)
	}
	return fmt.Sprintf("`go run ./bench %s%s` at %s on %s, %s with %d cores%s:", k.Bench, args, k.Commit, k.At.Format("2006-01-02"), k.CPU, k.Cores, medians)
}

// figure is a number with as many digits as say something; 0 does not apply, and is empty.
func figure(v float64) string {
	digits := 2
	switch {
	case v == 0:
		return ""
	case v >= 100:
		digits = 0
	case v >= 10:
		digits = 1
	}
	return english.Sprintf("%.*f", digits, v)
}

// english writes numbers with a comma between thousands.
var english = message.NewPrinter(language.English)
