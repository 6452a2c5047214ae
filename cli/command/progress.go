package command

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

// Terminal says whether r or w is one.
func Terminal(rw any) bool {
	f, ok := Under(rw).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Progress shows on standard error how far something has come: a bar on a terminal, else a
// line now and then.
type Progress struct {
	out   io.Writer
	what  string
	total int // below 0: nobody knows
	bar   *progressbar.ProgressBar
	begun time.Time
	said  time.Time
}

// sayEvery is how long a progress that is no bar says nothing.
const sayEvery = 10 * time.Second

// NewProgress shows how far a work of so many has come; total below 0: nobody knows how many. Quiet shows
// nothing.
func NewProgress(e Env, quiet bool, what string, total int) *Progress {
	p := &Progress{out: e.Err, what: what, total: total, begun: time.Now(), said: time.Now()}
	switch {
	case quiet:
		p.out = io.Discard
	case Terminal(e.Err):
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(Under(e.Err).(io.Writer)), progressbar.OptionSetDescription(Printable(what)), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString(strings.Fields(what)[0]), progressbar.OptionClearOnFinish())
	}
	return p
}

// Set says how many are done.
func (p *Progress) Set(n int) {
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
func (p *Progress) words(n int, now time.Time) string {
	of := strconv.Itoa(n)
	if p.total >= 0 {
		of += " of " + strconv.Itoa(p.total)
	}
	return fmt.Sprintf("%s %s, %.0f/s", of, p.what, float64(n)/now.Sub(p.begun).Seconds())
}

// End ends it.
func (p *Progress) End() {
	if p.bar != nil {
		if p.total < 0 {
			_ = p.bar.Clear() // it never finishes by itself
		}
		_ = p.bar.Exit()
	}
}
