package deadletter_test

import (
	"fmt"
	"testing"

	"github.com/tidemill/tidemill/state/deadletter"
)

func TestTheLargestGroupsAreKept(t *testing.T) {
	var g deadletter.Groups
	for i := range deadletter.MaxGroups + 10 {
		g.Groups = append(g.Groups, deadletter.Group{Pipeline: fmt.Sprint(i), Count: 1 + i})
	}
	g.Other = 7
	if g.Largest(); len(g.Groups) != deadletter.MaxGroups || g.Groups[0].Count != deadletter.MaxGroups+10 || g.Other != 7+55 {
		t.Errorf("%d groups, the first of %d, %d others", len(g.Groups), g.Groups[0].Count, g.Other)
	}
}
