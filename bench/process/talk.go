package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

// Talk connects a measured process, which uses it, with the benchmark.
type Talk struct {
	Profile string // file for a CPU profile of the measurement; empty: none

	in  *bufio.Reader
	out io.Writer
}

// NewTalk makes one over standard input and output.
func NewTalk() Talk { return Talk{in: bufio.NewReader(os.Stdin), out: os.Stdout} }

// Begin and End enclose the measurement.
func (t *Talk) Begin() error {
	t.Say("begin")
	if t.Profile == "" {
		return nil
	}
	f, err := os.Create(t.Profile)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f)
}

// End ends the measurement.
func (t *Talk) End() {
	pprof.StopCPUProfile()
	t.Say("end")
}

// Say reports the phase, and waits until the benchmark has read its figures.
func (t *Talk) Say(what string) {
	_, _ = fmt.Fprintln(t.out, what)
	_, _ = t.in.ReadString('\n') // no benchmark listens: go on
}

// Report writes the result.
func (t *Talk) Report(r any) error { return json.NewEncoder(t.out).Encode(r) }
