package cli

import "fmt"

// Reasons why single events were not taken: how many are kept, for --json, and how many are
// shown.
const (
	sendReasons  = 100
	shownReasons = 10
)

// keepReason keeps one of the first reasons.
func keepReason(reasons *[]string, why string) {
	if len(*reasons) < sendReasons {
		*reasons = append(*reasons, why)
	}
}

// printReasons shows the first of the reasons why n were not taken, each behind a word for it.
func printReasons(e env, word string, reasons []string, n int) {
	shown := reasons[:min(len(reasons), shownReasons)]
	for _, r := range shown {
		_, _ = fmt.Fprintln(e.err, word, printable(r))
	}
	if more := n - len(shown); more > 0 {
		_, _ = fmt.Fprintf(e.err, "and %d more\n", more)
	}
}
