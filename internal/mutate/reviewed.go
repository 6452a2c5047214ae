package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// reviewed are the faults without visible effect, each with a reviewer's reason.
type reviewed struct {
	reason map[string]string // by key
	met    map[string]bool
}

// readReviewed reads the list: for each fault its printed line (without id and line number),
// and indented below it the reason. Lines with # are comments.
func readReviewed(file string) (*reviewed, error) {
	r := &reviewed{reason: map[string]string{}, met: map[string]bool{}}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	key, n := "", 0
	for s := bufio.NewScanner(f); s.Scan(); {
		text := s.Text()
		n++
		switch trimmed := strings.TrimSpace(text); {
		case trimmed == "" || strings.HasPrefix(text, "#"):
		case trimmed == text:
			if key != "" && r.reason[key] == "" {
				return nil, fmt.Errorf("%s:%d: the fault above has no reason: want it indented on the next line", file, n)
			}
			if _, twice := r.reason[text]; twice {
				return nil, fmt.Errorf("%s:%d: this fault is named twice", file, n)
			}
			key = text
			r.reason[key] = ""
		case key == "":
			return nil, fmt.Errorf("%s:%d: a reason without a fault above it", file, n)
		default:
			r.reason[key] = strings.TrimSpace(r.reason[key] + " " + trimmed)
		}
	}
	if key != "" && r.reason[key] == "" {
		return nil, fmt.Errorf("%s: the last fault has no reason: want it indented on the next line", file)
	}
	return r, nil
}

// leaveOut returns the faults that are not on the list.
func (r *reviewed) leaveOut(all []fault) []fault {
	return slices.DeleteFunc(slices.Clone(all), func(f fault) bool {
		_, same := r.reason[f.key()]
		if same {
			r.met[f.key()] = true
		}
		return same
	})
}

// unused are the entries that no fault matched.
func (r *reviewed) unused() (l []string) {
	for k := range r.reason {
		if !r.met[k] {
			l = append(l, k)
		}
	}
	slices.Sort(l)
	return l
}
