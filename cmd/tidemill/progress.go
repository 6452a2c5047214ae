package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// terminal says whether r or w is one.
func terminal(rw any) bool {
	f, ok := rw.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows on standard error how far something has come: a bar on a terminal, else a
// line now and then.
type progress struct {
	out   io.Writer
	what  string
	total int // below 0: nobody knows
	bar   *progressbar.ProgressBar
	said  time.Time
}

// sayEvery is how long a progress that is no bar says nothing.
const sayEvery = 10 * time.Second

func newProgress(e env, quiet bool, what string, total int) *progress {
	p := &progress{out: e.err, what: what, total: total, said: time.Now()}
	switch {
	case quiet:
		p.out = io.Discard
	case terminal(e.err):
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(e.err), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	}
	return p
}

func (p *progress) set(n int) {
	if p.bar != nil {
		_ = p.bar.Set(n) // it is shown or it is not
		return
	}
	if now := time.Now(); now.Sub(p.said) >= sayEvery {
		p.said = now
		if p.total < 0 {
			_, _ = fmt.Fprintf(p.out, "%d %s\n", n, p.what)
			return
		}
		_, _ = fmt.Fprintf(p.out, "%d of %d %s\n", n, p.total, p.what)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		if p.total < 0 {
			_ = p.bar.Clear() // it never finishes by itself
		}
		_ = p.bar.Exit()
	}
}
