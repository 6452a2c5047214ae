// Package rules is what only the backends of the ledger role need.
package rules

import (
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/state/ledger"
)

// CheckName refuses names of ledgers that share a database: they become parts of keys and
// of tables' names.
func CheckName(name string) error {
	if len(name) > 32 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return fmt.Errorf("ledger name %.40q: want at most 32 of a-z, 0-9 and _", name)
	}
	return nil
}

// Round takes entries of different keys from todo, at most most of them, for backends that
// handle each key once in a call; rest are the others, in their order.
func Round(todo []*ledger.Entry, most int) (one, rest []*ledger.Entry) {
	taken := make(map[string]bool, min(len(todo), most))
	for i, e := range todo {
		if len(one) == most {
			return one, append(rest, todo[i:]...)
		}
		if taken[e.Key] {
			rest = append(rest, e)
			continue
		}
		taken[e.Key] = true
		one = append(one, e)
	}
	return one, rest
}
