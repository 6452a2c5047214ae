// Package rounds is the frame of all benchmarks: measurements are made in turns, round by round, so
// that a ratio is always between two of one round; what a row says at the end are the medians of its
// rounds.
package rounds

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/figures"
)

// A Bench is one benchmark.
type Bench struct {
	Name  string
	About string // what it measures, in a sentence
	Run   func(ctx context.Context, args []string) error
	Part  func(ctx context.Context, args []string) error // what a process plays that Self has started; nil: it starts none
}

// Self is this program in a process of its own, in which a benchmark plays a part.
func Self(ctx context.Context, bench string, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, self, append([]string{bench, "part"}, args...)...), nil
}

// Flags are those that every benchmark has.
type Flags struct {
	Rounds  int
	JSON    bool
	Dir     string // where folders of runs are made; empty: among temporary files
	Profile string // what names of profiles begin with; empty: none are made

	name string
	run  regexp.Regexp // of the rows that are measured
	file string        // where results are kept
	args []string
}

// Parse parses the flags of a benchmark, which more declares its own among. rounds is how many are
// made if no flag says so.
func Parse(name string, rounds int, args []string, more func(*flag.FlagSet)) (*Flags, error) {
	o := &Flags{name: name}
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "go run ./bench %s [flags], from the root of the repository. bench/README.md says what each row means.\n", name)
		f.PrintDefaults()
	}
	f.TextVar(&o.run, "run", regexp.MustCompile(""), "measure only the rows that this regular expression matches")
	f.IntVar(&o.Rounds, "rounds", rounds, "how often each measurement is made, in turns")
	f.BoolVar(&o.JSON, "json", false, "print a JSON line for each measurement, and one for its medians, which has round 0")
	f.StringVar(&o.file, "out", "", "keep the medians in this file too, with machine and commit, for bench compare")
	f.StringVar(&o.Dir, "dir", "", "folder for files and the servers' data; empty: a temporary one")
	f.StringVar(&o.Profile, "profile", "", "write CPU profiles of the product to files whose names begin so")
	if more != nil {
		more(f)
	}
	err := f.Parse(args)
	f.Visit(func(set *flag.Flag) {
		if set.Name != "out" && set.Name != "dir" && set.Name != "profile" { // which change no figure
			o.args = append(o.args, fmt.Sprintf("-%s=%v", set.Name, set.Value))
		}
	})
	switch {
	case err != nil:
		return nil, err
	case f.NArg() > 0:
		return nil, fmt.Errorf("%s: %q is no flag: flags begin with -, see -h", name, f.Arg(0))
	case o.Rounds < 1:
		return nil, fmt.Errorf("%s: -rounds is %d, want at least 1", name, o.Rounds)
	}
	return o, nil
}

// Wants says whether a row is to be measured.
func (o *Flags) Wants(row string) bool { return o.run.MatchString(row) }

// ProfileOf is the file for the profile of a row; empty: none is made.
func (o *Flags) ProfileOf(row string) string {
	if o.Profile == "" {
		return ""
	}
	return o.Profile + "-" + strings.Join(strings.FieldsFunc(row, func(r rune) bool { return strings.ContainsRune(" :,+", r) }), "-") + ".prof"
}

// Folder makes a folder that the servers' own users can reach, and returns it with what removes it.
func (o *Flags) Folder() (folder string, remove func(), err error) {
	if folder, err = os.MkdirTemp(o.Dir, "bench-"+o.name); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	if err := os.Chmod(folder, 0o755); err != nil {
		remove()
		return "", nil, err
	}
	return folder, remove, nil
}

// Common is what every result has: the figures of a benchmark embed it.
type Common struct {
	Round   int                `json:"round"` // from 1; 0: medians of all
	Name    string             `json:"name"`
	Latency *figures.Quantiles `json:"latency_ms,omitempty"`
	Problem string             `json:"problem,omitempty"` // what was lost, doubled or went wrong
	Late    []time.Duration    `json:"-"`                 // of each message; those of all rounds make the Latency of the medians
}

func (c *Common) common() *Common { return c }

// A Result is what was measured of one row. Its exported float64 fields are its figures: 0 does not
// apply. Their tag better says "more" or "less" where one is better.
type Result[T any] interface {
	*T
	common() *Common
	Head() string // the names above the columns of Line
	Line() string
}

// A Table is what a benchmark prints.
type Table[T any, R Result[T]] struct {
	Flags   *Flags
	Title   string
	Round   func(ctx context.Context, round int, tell func(R)) error // measures all once, and tells each result
	Compare func(round []R, r R)                                     // fills the ratios to those that were told before in the round; nil: there are none
}

// Measure makes the rounds and prints the results.
func (t *Table[T, R]) Measure(ctx context.Context) error {
	p := &printer{to: os.Stdout, json: t.Flags.JSON}
	p.say(t.Title)
	var names []string
	results := map[string][]R{}
	bad := 0
	for round := range t.Flags.Rounds {
		var now []R
		if err := t.Round(ctx, round, func(r R) {
			c := r.common()
			if c.Round = round + 1; c.Latency == nil {
				c.Latency = figures.QuantilesOf(c.Late)
			}
			if t.Compare != nil {
				t.Compare(now, r)
			}
			if c.Problem != "" {
				bad++
			}
			if now = append(now, r); results[c.Name] == nil {
				names = append(names, c.Name)
			}
			results[c.Name] = append(results[c.Name], r)
			p.print(r, r.Head(), r.Line())
		}); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return errors.New("-run matches no row")
	}
	p.say(fmt.Sprintf("\nmedians of %d rounds; ratios are to the same round", t.Flags.Rounds))
	var medians []any
	for _, name := range names {
		r := Median(results[name])
		medians = append(medians, r)
		p.print(r, r.Head(), r.Line())
	}
	if t.Flags.file != "" {
		if err := keep(ctx, t.Flags, medians); err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d measurements had a problem", bad)
	}
	return nil
}

// Median is the medians of one row over its rounds, with the latency of all rounds together and
// every problem.
func Median[T any, R Result[T]](rounds []R) R {
	s := R(new(T))
	*s = *rounds[0]
	c := s.common()
	*c = Common{Name: c.Name}
	all := make([]*T, len(rounds))
	for i, r := range rounds {
		all[i] = r
		of := r.common()
		c.Late = append(c.Late, of.Late...)
		if of.Problem != "" {
			figures.Note(&c.Problem, fmt.Errorf("round %d: %s", of.Round, of.Problem))
		}
	}
	figures.Medians((*T)(s), all)
	c.Latency = figures.QuantilesOf(c.Late)
	return s
}

// printer prints rows, each below the head that it needs.
type printer struct {
	to   io.Writer
	json bool
	head string
}

func (p *printer) say(text string) {
	if !p.json && text != "" {
		fmt.Fprintln(p.to, text)
		p.head = ""
	}
}

func (p *printer) print(r any, head, line string) {
	if p.json {
		figures.JSON(p.to, r)
		return
	}
	if head != p.head {
		p.head = head
		fmt.Fprintln(p.to, head)
	}
	fmt.Fprintln(p.to, line)
}
