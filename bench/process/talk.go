package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
)

// Talk is between a process that is measured, whose side this is, and who measures it.
type Talk struct {
	Profile string // where a CPU profile of what is measured goes; empty: none

	in  *bufio.Reader
	out io.Writer
}

// NewTalk makes one over standard input and output.
func NewTalk() Talk { return Talk{in: bufio.NewReader(os.Stdin), out: os.Stdout} }

// Begin and End enclose what is measured.
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

// End is the end of what is measured.
func (t *Talk) End() {
	pprof.StopCPUProfile()
	t.Say("end")
}

// Say says where the process is, and waits until who measures has looked.
func (t *Talk) Say(what string) {
	_, _ = fmt.Fprintln(t.out, what)
	_, _ = t.in.ReadString('\n') // nobody is there: it goes on
}

// Report says what came of it.
func (t *Talk) Report(r any) error { return json.NewEncoder(t.out).Encode(r) }
