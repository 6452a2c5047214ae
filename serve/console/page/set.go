// Package page is what the pages of the console are made of: a request for one (Visit), what it shows
// (View), and a change, which is a page that asks (Action). A Set has the pages of a system, or those
// that are of no system. Pages ask the API, in this process and as the caller who looks; they know
// nothing else of what they show.
package page

import (
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"slices"

	"github.com/tidemill/tidemill/serve/api"
)

// Set is a set of pages: what a system brings to the console, or what is of no system.
type Set struct {
	Name      string // of the system; empty: of none
	Places    []Place
	Pages     []Page
	Actions   []*Action
	Downloads []Page // that answer with a file
	Templates fs.FS  // templates/*.html; those that begin with an underscore are parts of its others. Nil: it has no pages
	Funcs     template.FuncMap
	Said      map[string]string // what was done before a page, in words, by what Done is given

	// Things are the pages of things, by the operation that shows one, of its parameters. Empty: that
	// one has none.
	Things map[string]func(parameters map[string]string) string

	// Described are what the system has to say of its descriptions, by their kinds.
	Described map[string]Described
}

// Described is what a system has to say of descriptions of a kind.
type Described struct {
	At      func(name string) string                  // the page of what is described; nil: it has none
	Removal func(v *Visit, name string) []string      // what a removal does, and what waits for it, a sentence or more each
	Of      func(queue string) (name string, is bool) // whose queue it is; nil: of none
}

// Page is one page: its address below Prefix, with {wildcards}, and what asks the API for it.
type Page struct {
	Path string
	Show func(*Visit) (*View, error) // no view: it has answered
}

// Place is an entry of the navigation. It is shown to who may do its operation.
type Place struct {
	Section, Text string
	Path          string // below Prefix
	Key           string // goes there after g
	Op            string // the operation that it needs
	Group         int    // groups follow each other, the least first; those of systems are in group 0
}

// handle adds the pages of a set.
func (f *Frame) handle(mux *http.ServeMux, s *Set) {
	for _, p := range append(s.Pages, s.Downloads...) {
		mux.HandleFunc("GET "+Prefix+p.Path, f.Serve(s, p.Show))
	}
	for _, a := range s.Actions {
		mux.HandleFunc("GET "+Prefix+a.Path, f.Serve(s, a.show))
		mux.HandleFunc("POST "+Prefix+a.Path, f.Serve(s, a.post))
	}
}

// join adds the places, words and things of a set to those of all; names that two sets use are refused.
func (f *Frame) join(s *Set, here bool) error {
	for _, p := range s.Places {
		for _, other := range f.places {
			if p.Section == other.Section || p.Key != "" && p.Key == other.Key {
				return fmt.Errorf("the console has two places %q or two keys %q", p.Section, p.Key)
			}
		}
		if here {
			f.places = append(f.places, p)
		}
	}
	for what, text := range s.Said {
		if f.said[what] != "" {
			return fmt.Errorf("the console has two words for %q", what)
		}
		f.said[what] = text
	}
	for op, at := range s.Things {
		if f.things[op] != nil {
			return fmt.Errorf("two sets of the console have the page of %s", op)
		}
		f.things[op] = at
	}
	for kind, d := range s.Described {
		if _, there := f.described[kind]; there {
			return fmt.Errorf("two sets of the console have descriptions of a %s", kind)
		}
		if here {
			f.described[kind] = d
		}
	}
	return nil
}

// Described is what the system of a kind of descriptions has to say of them; false: none that runs has such.
func (f *Frame) Described(kind string) (Described, bool) {
	d, there := f.described[kind]
	return d, there
}

// ThingAt is the page of a thing; empty: it has none.
func (f *Frame) ThingAt(t api.Thing) string {
	if t.Kind == "owner" {
		return OwnerAddress(t.ID)
	}
	if at := f.things[t.Operation]; at != nil {
		return at(t.Parameters)
	}
	return ""
}

// DescribedAt is the page of what is described; empty: it has none here.
func (f *Frame) DescribedAt(kind, name string) string {
	if d, there := f.Described(kind); there && d.At != nil {
		return d.At(name)
	}
	return ""
}

// Behind are the pages of what a queue is of, a partner.
func (f *Frame) Behind(queue string) (all []Link) {
	for _, kind := range slices.Sorted(maps.Keys(f.described)) {
		if d := f.described[kind]; d.Of != nil && d.At != nil {
			if name, is := d.Of(queue); is {
				all = append(all, Link{Text: kind + " " + name, Href: d.At(name)})
			}
		}
	}
	return all
}
