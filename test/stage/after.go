package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// wholly returns the names of the tests that have nothing more to do on servers than they did in a
// run without them, by that run's events: in each package that has one of the name it passed,
// skipped no part, and never learned that there are no servers (testenv.Enabled). Without the
// file there are none.
func wholly(file string) ([]string, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is := map[string]bool{} // by the name of a test that has ended
	for d := json.NewDecoder(f); ; {
		var e struct{ Action, Test, Key string }
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the events of a run: %w", err)
		}
		name, _, part := strings.Cut(e.Test, "/")
		switch _, ended := is[name]; {
		case e.Test == "":
		case e.Action == "skip", e.Action == "fail", e.Action == "attr" && e.Key == "servers":
			is[name] = false
		case e.Action == "pass" && !part && !ended:
			is[name] = true
		}
	}
	var names []string
	for name, yes := range is {
		if yes {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
