package tableprofile

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/state/table"
)

// Whole checks that each identity leads to a profile that has it in its list, and the reverse.
func Whole[Raw any](t *testing.T, s *Store[Raw]) {
	t.Helper()
	names, lists := map[string]string{}, map[string][]string{}
	for at := (&Record{key: "\x00"}); at != nil; {
		var page []*Record
		if err := s.t.View(t.Context(), func(r table.Reader[Record]) (err error) {
			page, err = r.Page(table.Query[Record]{After: at, Most: 100})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		at = nil
		for _, r := range page {
			at = r
			tenant, rest, _ := strings.Cut(r.key[1:], "\x00")
			if r.key[0] != 'p' {
				names[r.key] = "p" + tenant + "\x00" + string(r.profile)
				continue
			}
			lists[r.key] = []string{}
			for _, i := range r.has() {
				lists[r.key] = append(lists[r.key], string(digit(i.Kind))+tenant+"\x00"+i.Value)
			}
			if len(lists[r.key]) == 0 {
				t.Errorf("profile %x has no identity", rest)
			}
		}
	}
	for name, profile := range names {
		if !slices.Contains(lists[profile], name) {
			t.Errorf("identity %q leads to %q, which has %q", name, profile, lists[profile])
		}
	}
	for profile, list := range lists {
		for _, name := range list {
			if names[name] != profile {
				t.Errorf("profile %q has %q, which leads to %q", profile, name, names[name])
			}
		}
	}
}

// Damage makes the registers of a profile unreadable.
func Damage[Raw any](t *testing.T, s *Store[Raw], key string) {
	t.Helper()
	if err := s.t.Update(t.Context(), func(tx table.Tx[Record], _ Raw) error {
		return tx.Put([]*Record{{key: key, registers: []byte{1, 1}}}, "registers")
	}); err != nil {
		t.Fatal(err)
	}
}
