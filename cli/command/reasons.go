package command

import "fmt"

// Reasons why single events were not taken: how many are kept, for --json, and how many are
// shown.
const (
	sendReasons  = 100
	shownReasons = 10
)

// KeepReason keeps one of the first reasons.
func KeepReason(reasons *[]string, why string) {
	if len(*reasons) < sendReasons {
		*reasons = append(*reasons, why)
	}
}

// PrintReasons shows the first of the reasons why n were not taken, each behind a word for it.
func PrintReasons(e Env, word string, reasons []string, n int) {
	shown := reasons[:min(len(reasons), shownReasons)]
	for _, r := range shown {
		_, _ = fmt.Fprintln(e.Err, word, Printable(r))
	}
	if more := n - len(shown); more > 0 {
		_, _ = fmt.Fprintf(e.Err, "and %d more\n", more)
	}
}

const SendBatch = 1 << 20 // bytes of events in one request; also the longest line
