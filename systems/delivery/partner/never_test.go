package partner

import (
	"strings"
	"testing"
)

func TestConditionsThatNeverHold(t *testing.T) {
	for when, want := range map[string]string{
		`event.eventType == "purchse"`:                                          `there is no type of events "purchse"`,
		`event.eventType in ["purchse", "view"]`:                                `there is no type of events "purchse"`,
		`event.siteId == "nowhere" && event.value > 1`:                          `there is no site "nowhere"`,
		`"nowhere" == event.siteId`:                                             `there is no site "nowhere"`,
		`event.eventType == "purchase" and event.eventType == "page_view"`:      `event.eventType cannot be "purchase" and "page_view"`,
		`event.currency == "EUR" && event.value > 1 && event.currency == "USD"`: `event.currency cannot be "EUR" and "USD"`,
		`event.siteId in []`:                                                    "is empty",
		`event.value > 1 && false`:                                              "a part of it is false",
		`event.eventType == "x" || event.siteId == "y"`:                         `there is no type of events "x"`,
		``: "", `false`: "", `true`: "", `nonsense >`: "",
		`event.eventType == "purchase"`:                                   "",
		`event.eventType in ["purchse", "purchase"]`:                      "",
		`event.eventType == "purchase" || event.eventType == "page_view"`: "",
		`event.eventType == "x" || event.value > 1`:                       "",
		`event.siteId == "shop" && event.eventType != "x"`:                "",
		`event.properties.eventType == "x"`:                               "",
	} {
		got := Never(when, []string{"purchase", "page_view"}, []string{"shop"})
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
}
