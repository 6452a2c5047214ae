package tabletest

import (
	"bytes"
	"cmp"
	"strings"
)

// orders are those of Spec, written anew here.
var orders = map[string]func(a, b *Record) int{
	"":   func(a, b *Record) int { return cmp.Compare(a.Key, b.Key) },
	"at": func(a, b *Record) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Key, b.Key)) },
	"state": func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.At.Compare(b.At), cmp.Compare(a.Key, b.Key))
	},
	"until": func(a, b *Record) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Key, b.Key)) },
	"group": func(a, b *Record) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), flag(a)-flag(b), cmp.Compare(a.No, b.No), cmp.Compare(a.Key, b.Key))
	},
	"tries": func(a, b *Record) int { return cmp.Or(cmp.Compare(a.Tries, b.Tries), cmp.Compare(a.Key, b.Key)) },
	"body":  func(a, b *Record) int { return cmp.Or(bytes.Compare(a.Body, b.Body), cmp.Compare(a.Key, b.Key)) },
}

func flag(r *Record) int {
	if r.Flag {
		return 1
	}
	return 0
}

func joined(keys []string) string { return strings.Join(keys, " ") }
