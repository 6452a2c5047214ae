package operation

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Cost is what an operation takes of an instance, whatever it is asked.
type Cost uint8

// The costs. What says none is normal.
const (
	Normal Cost = iota // reads or changes a bounded part of a store
	Cheap              // answers from memory, or looks one thing up by its key
	Dear               // reads much: each caller has one of them done at a time, and an instance some
)

var costs = []string{"normal", "cheap", "dear"}

// String is its name.
func (c Cost) String() string { return costs[c] }

// CostOf is what a request takes. A parameter of the tag `cost:"value=name"` changes it where it has that value; and to read
// all lines of a listing that has pages is dear, unless it goes on for as long as somebody listens or wants no more than a
// page may have: but with a parameter of the tag `looks:"all"` everything is looked at, however few there are to be.
func (d *Description) CostOf(r *http.Request) Cost {
	cost, q := d.Cost, r.URL.Query()
	for i := range d.Params {
		p := &d.Params[i]
		if value, name, ok := strings.Cut(p.Field.Tag.Get("cost"), "="); ok && q.Get(p.Name) == value {
			cost = costOf(name)
		}
	}
	if inLines(d, r) && (!few(q, "max", "newest") || looksAtAll(d, q)) {
		cost = Dear
	}
	return cost
}

// ReadsPage says whether a request reads a bounded part of a store, and ends by itself.
func (d *Description) ReadsPage(r *http.Request) bool {
	return d.Method == http.MethodGet && d.CostOf(r) == Normal && !d.Events && !forLines(r)
}

// inLines says whether a request is for lines of a listing that may be long, and not for what comes from now on.
func inLines(d *Description, r *http.Request) bool {
	return d.Paged() && !isShort(d) && forLines(r) && !follows(r.URL.Query())
}

// follows says whether a query is for what comes from now on too.
func follows(q url.Values) bool { return q.Get("follow") == "true" }

// few says whether a query wants no more lines than a page may have, by one of the parameters that say how many.
func few(q url.Values, by ...string) bool {
	for _, name := range by {
		if n, err := strconv.Atoi(q.Get(name)); err == nil && 0 < n && n <= LimitsOfPages().Most {
			return true
		}
	}
	return false
}

// looksAtAll says whether a query has everything looked at, in lines, whatever is found.
func looksAtAll(d *Description, q url.Values) bool {
	return slices.ContainsFunc(d.Params, func(p Param) bool { return p.Field.Tag.Get("looks") == "all" && q.Get(p.Name) != "" })
}

// costOf is the cost of a name; another one is a mistake of the program.
func costOf(name string) Cost {
	for i, s := range costs {
		if s == name {
			return Cost(i)
		}
	}
	panic(fmt.Sprintf("%q is no cost", name))
}

// Costs says of operations that they take less or more than usual. It is no method of theirs: a hundred
// types would each have it.
func Costs(c Cost, of ...*Description) {
	for _, d := range of {
		d.Cost = c
	}
}
