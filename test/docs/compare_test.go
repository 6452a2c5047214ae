package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// patterns are what differs from run to run, and its replacement for comparison. Earlier ones
// go first: a time contains something like a duration.
var patterns = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\btm_[A-Za-z0-9_-]{32}`), "<key>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?`), "<time>"},
	{regexp.MustCompile(`\b(go)?v?\d+\.\d+\.\d+(\.\d+)*(-[0-9a-z.-]+)?\b`), "<version>"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(h|m|s|ms|µs|ns))+\b`), "<duration>"},
	{regexp.MustCompile(`(<version>|\blocalhost|\]):\d+`), "$1:<port>"}, // 127.0.0.1 reads as a version
	{regexp.MustCompile(`\b\d{13}(-\d+)?\b`), "<id>"},                   // of a Redis entry, of a window
	{regexp.MustCompile(`[ \t]+`), " "},
}

var (
	uuid   = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	number = regexp.MustCompile(`\d+(\.\d+)?`)

	// progress is what a command says of work that takes long, as it does on a slow machine.
	progress = regexp.MustCompile(`^\d+( of \d+)? [a-z ]+, \d+/s$`)
)

// A difference is output that the page does not show.
type difference struct {
	want, got []string
	at        int // of want
}

func (d *difference) Error() string {
	return fmt.Sprintf("the page shows:\n%s\nit printed:\n%s\nline %d of the page's output is not there",
		indented(d.want), indented(d.got), d.at+1)
}

// compare returns a *difference if the output is not what the page shows.
func compare(want, got []string, m marks) error {
	want, got = trimBlank(want), trimBlank(slices.DeleteFunc(slices.Clone(got), progress.MatchString))
	w, g := normal(want, m), normal(got, m)
	if m.anyOrder {
		slices.Sort(w)
		slices.Sort(g)
	}
	if i := mismatch(w, g); i >= 0 {
		return &difference{want, got, i}
	}
	return nil
}

// normal is each line with patterns in place of varying parts.
func normal(lines []string, m marks) []string {
	ids := newIdentities()
	out := make([]string, len(lines))
	for i, l := range lines {
		if m.anyOrder {
			l = uuid.ReplaceAllString(l, "<uuid>")
		} else {
			l = uuid.ReplaceAllStringFunc(l, ids.name)
		}
		for _, p := range patterns {
			l = p.is.ReplaceAllString(l, p.as)
		}
		if m.numbersVary {
			l = number.ReplaceAllString(l, "<number>")
		}
		out[i] = strings.TrimSpace(l)
	}
	return out
}

// identities names ids in the order of their first appearance, so that equal ones in the page
// must be equal in the output.
type identities struct{ seen map[string]string }

func newIdentities() *identities { return &identities{map[string]string{}} }

func (ids *identities) name(id string) string {
	if ids.seen[id] == "" {
		ids.seen[id] = "<uuid " + string(rune('a'+len(ids.seen)%26)) + ">"
	}
	return ids.seen[id]
}

// mismatch is the index of the first wanted line that nothing matches; -1 if all match and
// nothing is left over. A line "…" stands for any lines.
func mismatch(want, got []string) int {
	best := 0
	var match func(w, g int) bool
	match = func(w, g int) bool {
		best = max(best, w)
		switch {
		case w == len(want):
			return g == len(got)
		case want[w] == "…":
			return match(w+1, g) || g < len(got) && match(w, g+1)
		default:
			return g < len(got) && like(want[w], got[g]) && match(w+1, g+1)
		}
	}
	if match(0, 0) {
		return -1
	}
	return best
}

// like reports whether a line is as wanted, where "…" is any text.
func like(want, got string) bool {
	if want == got {
		return true
	}
	if !strings.Contains(want, "…") {
		return false
	}
	parts := strings.Split(want, "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	ok, err := regexp.MatchString("^"+strings.Join(parts, ".*")+"$", got)
	return err == nil && ok
}

func indented(lines []string) string {
	return "  | " + strings.Join(lines, "\n  | ")
}
