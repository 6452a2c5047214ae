package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// terminal says whether r or w is one.
func terminal(rw any) bool {
	f, ok := under(rw).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress shows on standard error how far something has come: a bar on a terminal, else a
// line now and then.
type progress struct {
	out   io.Writer
	what  string
	total int // below 0: nobody knows
	bar   *progressbar.ProgressBar
	begun time.Time
	said  time.Time
}

// sayEvery is how long a progress that is no bar says nothing.
const sayEvery = 10 * time.Second

func newProgress(e env, quiet bool, what string, total int) *progress {
	p := &progress{out: e.err, what: what, total: total, begun: time.Now(), said: time.Now()}
	switch {
	case quiet:
		p.out = io.Discard
	case terminal(e.err):
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(under(e.err).(io.Writer)), progressbar.OptionSetDescription(printable(what)), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString(strings.Fields(what)[0]), progressbar.OptionClearOnFinish())
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
		_, _ = fmt.Fprintln(p.out, p.words(n, now))
	}
}

// words say how far it is, and how fast it was so far.
func (p *progress) words(n int, now time.Time) string {
	of := strconv.Itoa(n)
	if p.total >= 0 {
		of += " of " + strconv.Itoa(p.total)
	}
	return fmt.Sprintf("%s %s, %.0f/s", of, p.what, float64(n)/now.Sub(p.begun).Seconds())
}

func (p *progress) end() {
	if p.bar != nil {
		if p.total < 0 {
			_ = p.bar.Clear() // it never finishes by itself
		}
		_ = p.bar.Exit()
	}
}
