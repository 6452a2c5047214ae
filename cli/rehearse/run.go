package rehearse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
)

// Tried is what came of a case.
type Tried struct {
	Case        string       `json:"case"`
	System      string       `json:"system"`
	Ok          bool         `json:"ok"`
	Differences []Unexpected `json:"differences"`
}

// Unexpected is a difference of one event.
type Unexpected struct {
	Place string `json:"place"` // of the event: file and line
	Difference
}

func (u Unexpected) String() string {
	return fmt.Sprintf("%s: %s: want %s, is %s", u.Place, u.Where(), u.Want, u.Is)
}

// Rehearsal makes the rehearsal of a system under a configuration, whose events come in at a time.
func Rehearsal(table system.Table, name string, c *config.Loaded, at time.Time) (system.Rehearsal, error) {
	if err := table.Has(name); err != nil {
		return nil, err
	}
	s := table.Of([]string{name})[0]
	if s.Rehearse == nil {
		return nil, fmt.Errorf("the system %s cannot be rehearsed", name)
	}
	r, err := s.Rehearse(&system.Rehearsing{Config: c, Now: func() time.Time { return at }})
	if err != nil {
		return nil, fmt.Errorf("rehearse %s: %w", name, err)
	}
	return r, nil
}

// Rehearse says what becomes of the events of a case. Where the case has no time they come in now.
func (c *Case) Rehearse(ctx context.Context, table system.Table, cfg *config.Loaded, now time.Time) ([][]system.End, error) {
	if c.At.IsZero() {
		c.At = now
	}
	r, err := Rehearsal(table, c.System, cfg, c.At)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Folder, err)
	}
	became, err := r(ctx, c.Events)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Folder, err)
	}
	return became, nil
}

// Compare says where what became of the events is not what the case expects.
func (c *Case) Compare(became [][]system.End) (*Tried, error) {
	t := &Tried{Case: c.Folder, System: c.System, Differences: []Unexpected{}}
	if !c.Expects {
		return nil, fmt.Errorf("%s has no %s, which says what is expected: --record writes what becomes of its events now", c.Folder, caseFile)
	}
	if len(c.Given.Events) != len(became) {
		return nil, fmt.Errorf("%s: it expects what becomes of %d events, and there are %d in the file: --record writes it anew", c.Folder, len(c.Given.Events), len(became))
	}
	for i, ends := range became {
		want, err := c.Given.Events[i].ends(ends)
		if err == nil {
			err = Differences(want, ends, func(d Difference) { t.Differences = append(t.Differences, Unexpected{c.Places[i], d}) })
		}
		if err != nil {
			return nil, fmt.Errorf("%s, event %d: %w", c.Folder, i+1, err)
		}
	}
	t.Ok = len(t.Differences) == 0
	return t, nil
}

// ends are the expected ones, with the outputs of those that are where the case has none.
func (e *Expected) ends(are []system.End) (want []system.End, err error) {
	outputs := map[string]json.RawMessage{}
	for _, end := range are {
		outputs[end.At] = end.Output
	}
	for at, end := range e.Ends {
		w := system.End{At: at, End: end, Output: outputs[at]}
		if given, ok := e.Outputs[at]; ok {
			w.Output = given
		}
		want = append(want, w)
	}
	for at := range e.Outputs {
		if _, ok := e.Ends[at]; !ok {
			err = errors.Join(err, fmt.Errorf("it expects an output at %q, and no end", at))
		}
	}
	return want, err
}

// Differences calls do with each difference between the ends of an event: places in the order of is,
// and then those that are not there.
func Differences(want, is []system.End, do func(Difference)) error {
	left := map[string]system.End{}
	for _, w := range want {
		left[w.At] = w
	}
	for _, end := range is {
		w, ok := left[end.At]
		delete(left, end.At)
		if !ok {
			do(Difference{At: end.At, Want: none, Is: end.End})
			continue
		}
		if w.End != end.End {
			do(Difference{At: end.At, Want: w.End, Is: end.End})
			if w.Output == nil || end.Output == nil { // that says it all
				continue
			}
		}
		err := values(w.Output, end.Output, func(path, want, is string) { do(Difference{end.At, path, want, is}) })
		if err != nil {
			return err
		}
	}
	for _, w := range want {
		if _, gone := left[w.At]; gone {
			do(Difference{At: w.At, Want: w.End, Is: none})
		}
	}
	return nil
}
