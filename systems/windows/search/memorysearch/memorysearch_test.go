package memorysearch

import (
	"testing"

	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/searchtest"
)

func TestConformance(t *testing.T) {
	searchtest.Run(t, func(t *testing.T, schemas ...*search.Schema) searchtest.Harness {
		s, err := New(Options{}, schemas...)
		if err != nil {
			t.Fatal(err)
		}
		return searchtest.Harness{Store: s}
	})
}
