package rules

import "github.com/tidemill/tidemill/state/profile"

// Page is how many profiles a List asked for n returns at most.
func Page(n int) int {
	if n <= 0 {
		return 100
	}
	return min(n, profile.MaxPage)
}
