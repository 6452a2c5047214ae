package handler

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// paths finds values in an event, all in one pass, as raw bytes.
type paths struct {
	root  step
	count int
}

// step is a node of the paths: its children, by the name of a member or the number of an
// element.
type step struct {
	below map[string]*step
	at    int // number of the path that ends here, from 1; 0: none ends here
}

// Bounds of a path.
const (
	maxPath  = 255 // bytes
	maxSteps = 20
)

// add adds a path such as payload.address.city or payload.tags.0 and returns its number.
func (p *paths) add(path string) (int, error) {
	names := strings.Split(path, ".")
	if len(path) > maxPath || len(names) > maxSteps {
		return 0, fmt.Errorf("the path %.80q: want at most %d bytes and %d names", path, maxPath, maxSteps)
	}
	s := &p.root
	for _, name := range names {
		if name == "" {
			return 0, fmt.Errorf("the path %q has an empty name in it", path)
		}
		if s.below == nil {
			s.below = map[string]*step{}
		}
		if s.below[name] == nil {
			s.below[name] = &step{}
		}
		s = s.below[name]
	}
	if s.at == 0 {
		p.count++
		s.at = p.count
	}
	return s.at - 1, nil
}

// find returns the values by the numbers of their paths; nil: missing. They are parts of raw,
// which is valid JSON.
func (p *paths) find(raw []byte) ([][]byte, error) {
	found := make([][]byte, p.count)
	if err := p.root.find(raw, found); err != nil {
		return nil, fmt.Errorf("look for values in the event: %w", err)
	}
	return found, nil
}

func (s *step) find(value []byte, found [][]byte) error {
	if s.at > 0 {
		found[s.at-1] = value
	}
	if s.below == nil || len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return nil
	}
	return members(value, func(name string, v []byte) error {
		if below := s.below[name]; below != nil {
			return below.find(v, found)
		}
		return nil
	})
}

// members goes through an object or an array.
func members(value []byte, do func(name string, v []byte) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(value), jsontext.AllowDuplicateNames(true))
	object := value[0] == '{'
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for n := 0; d.PeekKind() != '}' && d.PeekKind() != ']'; n++ {
		name := ""
		if object {
			token, err := d.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		} else {
			name = strconv.Itoa(n)
		}
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		end := int(d.InputOffset())
		if err := do(name, value[end-len(v):end:end]); err != nil {
			return err
		}
	}
	return nil
}
