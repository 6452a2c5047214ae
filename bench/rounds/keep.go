package rounds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
)

// head is the first line of a file of results.
type head struct {
	Bench  string            `json:"bench"`
	Args   []string          `json:"args,omitempty"`
	Rounds int               `json:"rounds"`
	At     time.Time         `json:"at"`
	Commit string            `json:"commit"` // with -dirty where files differ from it
	Go     string            `json:"go"`
	OS     string            `json:"os"`
	CPU    string            `json:"cpu"`
	Cores  int               `json:"cores"`
	Better map[string]string `json:"better"` // by figure: more or less
}

// keep writes medians to a file, behind a line that says where and of what they are.
func keep(ctx context.Context, o *Flags, medians []any) error {
	h := head{Bench: o.name, Args: o.args, Rounds: o.Rounds, At: time.Now().UTC().Truncate(time.Second), Commit: commit(ctx), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: model(), Cores: runtime.NumCPU(), Better: better(reflect.TypeOf(medians[0]).Elem())}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	err := e.Encode(h)
	for _, m := range medians {
		err = errors.Join(err, e.Encode(m))
	}
	return errors.Join(err, os.WriteFile(o.file, b.Bytes(), 0o644))
}

// better reads the tags of a result's figures.
func better(t reflect.Type) map[string]string {
	found := map[string]string{}
	for i := range t.NumField() {
		if which := t.Field(i).Tag.Get("better"); which != "" {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			found[name] = which
		}
	}
	return found
}

func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// model is the name of the processor, by Linux.
func model() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// kept is a file of results.
type kept struct {
	head
	names   []string
	figures map[string]map[string]float64 // by row and figure
}

func read(file string) (*kept, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	k := &kept{figures: map[string]map[string]float64{}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			if err := json.Unmarshal(lines.Bytes(), &k.head); err != nil || k.Bench == "" {
				return nil, fmt.Errorf("%s: line 1 does not say which benchmark it is of: make the file by -out", file)
			}
			continue
		}
		var row map[string]any
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, n, err)
		}
		name, _ := row["name"].(string)
		of := map[string]float64{}
		for figure, value := range row {
			if v, is := value.(float64); is {
				of[figure] = v
			}
		}
		if quantiles, is := row["latency_ms"].(map[string]any); is {
			for _, q := range []string{"p50", "p99"} {
				of[q+"_ms"], _ = quantiles[q].(float64)
			}
		}
		k.names, k.figures[name] = append(k.names, name), of
	}
	return k, lines.Err()
}

// worse is by which part a figure is more than this worse.
const worse = 0.05

// Compare holds a file of results against one of before, and prints each figure that got worse by
// more than five per cent, or better. ErrWorse if one got worse.
func Compare(w io.Writer, before, after string) error {
	old, err := read(before)
	if err != nil {
		return err
	}
	now, err := read(after)
	if err != nil {
		return err
	}
	if old.Bench != now.Bench {
		return fmt.Errorf("%s is of %s, and %s of %s", before, old.Bench, after, now.Bench)
	}
	if old.CPU != now.CPU || old.Cores != now.Cores {
		fmt.Fprintf(w, "The machines differ (%s, %d cores; now %s, %d cores): only ratios can be compared.\n", old.CPU, old.Cores, now.CPU, now.Cores)
	}
	bad := false
	for _, name := range old.names {
		if now.figures[name] == nil {
			fmt.Fprintf(w, "%s: not measured\n", name)
			continue
		}
		bad = old.row(w, now, name) || bad
	}
	if bad {
		return ErrWorse
	}
	fmt.Fprintf(w, "%s: nothing got worse by more than %.0f%% from %s to %s.\n", now.Bench, worse*100, old.Commit, now.Commit)
	return nil
}

// ErrWorse is that of a comparison in which a figure got worse.
var ErrWorse = errors.New("figures got worse")

// row compares one row, and says whether it got worse.
func (k *kept) row(w io.Writer, now *kept, name string) (bad bool) {
	names := slices.AppendSeq([]string{"p50_ms", "p99_ms"}, maps.Keys(k.Better))
	slices.Sort(names)
	for _, figure := range slices.Compact(names) {
		a, b := k.figures[name][figure], now.figures[name][figure]
		if a == 0 || b == 0 {
			continue
		}
		by := b/a - 1
		got := "better"
		if (by < 0) == (k.Better[figure] == "more") {
			got = "worse"
		}
		if math.Abs(by) > worse {
			bad = bad || got == "worse"
			fmt.Fprintf(w, "%s: %s %s by %.0f%%: %.4g, now %.4g\n", name, figure, got, math.Abs(by)*100, a, b)
		}
	}
	return bad
}
