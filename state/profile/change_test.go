package profile

import (
	"strings"
	"testing"
)

func TestOnlyDepthIsDeep(t *testing.T) {
	for v, want := range map[string]bool{
		"[" + strings.Repeat("[],", MaxDepth) + "{}]":                               false,
		"[" + strings.Repeat(`{"a":0},`, MaxDepth) + "{}]":                          false,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth):               false,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1):           true,
		strings.Repeat(`{"a":`, MaxDepth+1) + "0" + strings.Repeat("}", MaxDepth+1): true,
		`"\"` + strings.Repeat("[", MaxDepth+1) + `"`:                               false,
	} {
		if deep([]byte(v)) != want {
			t.Errorf("%.30s… is deep: %v", v, !want)
		}
	}
}
