package deploy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// rule alerts or records.
type rule struct {
	Alert, Record, Expr string
	Labels              map[string]string
	Annotations         map[string]string
}

// rules are all rules of a file.
func rules(t *testing.T, path string) []rule {
	t.Helper()
	var all []rule
	for _, group := range read[struct{ Groups []struct{ Rules []rule } }](t, path).Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// alerts are the alerts of a file.
func alerts(t *testing.T, path string) []rule {
	return slices.DeleteFunc(rules(t, path), func(r rule) bool { return r.Alert == "" })
}

// recorded are the labels of recorded rules, by name: those that they are summed up by.
func recorded(t *testing.T) map[string][]string {
	labels := map[string][]string{}
	for _, path := range ruleFiles(t) {
		for _, r := range rules(t, path) {
			if by := grouping.FindStringSubmatch(r.Expr); r.Record != "" && by != nil {
				labels[r.Record] = strings.Split(strings.ReplaceAll(by[1], " ", ""), ",")
			}
		}
	}
	return labels
}

// read is the content of a YAML file.
func read[T any](t *testing.T, path string) T {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := yaml.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}
