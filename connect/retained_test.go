package connect

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/testenv"
)

// retains are the stores that forget, as doctor names them.
func retains(in *Instance) (names []string) {
	for _, f := range in.Retained() {
		names = append(names, strings.TrimPrefix(f.Check, "retention: "))
	}
	slices.Sort(names)
	return names
}

func TestWhatIsBoundedInTheFile(t *testing.T) {
	in := open(t, settings(t, "analytics.keep", "90d", "analytics.keep_most", "1GiB", "windows.search.keep_most", "1GiB", "dead_letters.keep", "30d"), Options{Systems: []string{"analytics", "windows"}})
	defer in.Close()
	want := []string{"audit trail", "days of the index by age", "days of the index by size", "dead letters", "events by age", "events by size", "warnings by age", "warnings by number"}
	if got := retains(in); !slices.Equal(got, want) {
		t.Errorf("%q are bounded, want %q", got, want)
	}
}

func TestWhatIsBoundedOnServers(t *testing.T) {
	testenv.Need(t)
	clickhouse, database := testenv.ClickHouse(t)
	in := open(t, settings(t, "clickhouse.url", clickhouse, "clickhouse.database", database, "redis.url", testenv.Redis(t), "analytics.stream", testenv.Name("events"), "analytics.keep_most", "1GiB",
		"windows.search.url", testenv.OpenSearch(t), "windows.search.keep_most", "1GiB", "windows.search.keep", "0"), Options{Systems: []string{"analytics", "windows"}})
	defer in.Close()
	want := []string{"audit trail", "days of the index by size", "events by size", "stream of analytics", "warnings by number"}
	if got := retains(in); !slices.Equal(got, want) {
		t.Errorf("%q are bounded, want %q", got, want)
	}
	ran := false
	for _, loop := range in.Loops {
		if loop.Name == "retention" {
			ran = true
			if err := loop.Do(t.Context()); err != nil {
				t.Errorf("where there is nothing to remove: %v", err)
			}
		}
	}
	if !ran {
		t.Error("nothing removes it")
	}
}
