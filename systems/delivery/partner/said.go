package partner

import (
	"slices"
	"strings"
)

// maxSaid is how many characters of a partner's reason for one message go into its cause.
const maxSaid = 300

// said is a partner's reason for refusing a message: the texts in its result whose names speak
// of an error, at any depth. Empty: it gives none.
func said(result any) string {
	var all []string
	collect(result, false, &all)
	r := []rune(strings.Join(all, "; "))
	if len(r) > maxSaid {
		return string(r[:maxSaid-1]) + "…"
	}
	return string(r)
}

// speaking are parts of the names of fields that say what is wrong.
var speaking = []string{"message", "error", "reason", "description", "detail"}

func collect(v any, speaks bool, all *[]string) {
	switch v := v.(type) {
	case string:
		if v = strings.TrimSpace(v); speaks && v != "" && !slices.Contains(*all, v) {
			*all = append(*all, v)
		}
	case []any:
		for _, one := range v {
			collect(one, speaks, all)
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			low := strings.ToLower(name)
			collect(v[name], speaks || slices.ContainsFunc(speaking, func(s string) bool { return strings.Contains(low, s) }), all)
		}
	}
}
