package rounds

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A table of a page stands between a comment that asks for it and one that ends it:
//
//	<!-- results queue; rows process; cut tidemill ; per_second jobs/s; cpu_us own µs -->
//	<!-- end of results -->
//
// It is of the file queue.jsonl, of the rows that match, less what cut matches in their names, and
// has a column for each figure, with its heading. No rows: all of them.
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

// tableOf makes one table, below a line that says what it is of.
func tableOf(ask, folder string) (string, error) {
	bench, parts, _ := strings.Cut(ask, ";")
	k, err := read(filepath.Join(folder, bench+".jsonl"))
	if err != nil {
		return "", err
	}
	rows, cut := regexp.MustCompile(""), regexp.MustCompile("$")
	var columns []string
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| |", k.about())
	for part := range strings.SplitSeq(parts, ";") {
		name, value, _ := strings.Cut(strings.TrimLeft(part, " "), " ")
		switch name {
		case "rows", "cut":
			r, err := regexp.Compile(value)
			if err != nil {
				return "", err
			}
			if name == "rows" {
				rows = r
			} else {
				cut = r
			}
		default:
			columns = append(columns, name)
			fmt.Fprintf(&b, " %s |", value)
		}
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", len(columns)+1))
	measured := map[string]bool{}
	none := true
	for _, name := range k.names {
		if !rows.MatchString(name) {
			continue
		}
		none = false
		fmt.Fprintf(&b, "| %s |", cut.ReplaceAllString(name, ""))
		for _, c := range columns {
			v, has := k.figures[name][c]
			measured[c] = measured[c] || has
			fmt.Fprintf(&b, " %s |", figure(v))
		}
		b.WriteString("\n")
	}
	if none {
		return "", fmt.Errorf("no row of %s.jsonl matches %q", bench, rows)
	}
	for _, c := range columns {
		if !measured[c] {
			return "", fmt.Errorf("none of its rows has the figure %q", c)
		}
	}
	return b.String(), nil
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
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if len(text) <= 3 || digits > 0 {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
