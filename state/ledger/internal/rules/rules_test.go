package rules_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

func TestNamesOfLedgersHaveAnEnd(t *testing.T) {
	if err := rules.CheckName(strings.Repeat("x", 32)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{strings.Repeat("x", 33), "a-b", "A"} {
		if rules.CheckName(bad) == nil {
			t.Errorf("%q is let pass", bad)
		}
	}
}

func TestARoundHasEachKeyOnce(t *testing.T) {
	var todo []*ledger.Entry
	for _, k := range "abacabdee" {
		todo = append(todo, &ledger.Entry{Key: string(k)})
	}
	keys := func(es []*ledger.Entry) (s string) {
		for _, e := range es {
			s += e.Key
		}
		return s
	}
	for most, want := range map[int][2]string{2: {"ab", "acabdee"}, 3: {"abc", "aabdee"}, 9: {"abcde", "aabe"}} {
		if one, rest := rules.Round(slices.Clone(todo), most); keys(one) != want[0] || keys(rest) != want[1] {
			t.Errorf("a round of %d: %s, then %s; want %q", most, keys(one), keys(rest), want)
		}
	}
}
