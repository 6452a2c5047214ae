package deadletter

import (
	"math"
	"slices"
	"time"

	"github.com/tidemill/tidemill"
)

// MaxIDs is how many dead letters a filter may name at once, by ID and by Seq together.
const MaxIDs = 10_000

// Filter chooses dead letters; zero fields match all.
type Filter struct {
	Pipeline, Tenant string
	Only             func(pipeline string) bool // says of which pipelines; nil: of all
	State            State
	Kinds            []tidemill.Kind
	NotKinds         []tidemill.Kind
	Cause            string    // of a [Group], as CommonCause makes it: of those too that are counted in none
	IDs              []string  // message ids; with Seqs at most MaxIDs
	Seqs             []int64   // numbers, found without reading other dead letters
	After            time.Time // last died at or after
	Before           time.Time // last died before
	Replays          int       // replayed fewer times than this: keeps a regular replay from trying the same ones for ever
	AfterSeq         int64     // only those that follow this number: that of the last dead letter of a page chooses the next page
	Back             bool      // from the greatest number down: those follow that are smaller. A page before another one is Back, after its first
	Max              int       // 0: no limit; the first ones
}

// Between says which numbers the filter chooses: greater than after, and smaller than before.
func (f *Filter) Between() (after, before int64) {
	if f.Back && f.AfterSeq > 0 {
		return 0, f.AfterSeq
	}
	if f.Back {
		return 0, math.MaxInt64
	}
	return max(f.AfterSeq, 0), math.MaxInt64
}

// Check refuses a filter that no store takes.
func (f *Filter) Check() error {
	if n := len(f.IDs) + len(f.Seqs); n > MaxIDs {
		return tidemill.Fail(tidemill.Validation, "a filter that names %d letters: at most %d at once", n, MaxIDs)
	}
	return nil
}

// Has says whether Only takes a pipeline.
func (f *Filter) Has(pipeline string) bool { return f.Only == nil || f.Only(pipeline) }

// Match says whether the filter chooses the dead letter. The backend applies Max.
func (f *Filter) Match(l *Letter) bool {
	after, before := f.Between()
	return f.Has(l.Pipeline) && (f.Pipeline == "" || f.Pipeline == l.Pipeline) && (f.Tenant == "" || f.Tenant == l.Tenant) &&
		(f.State == "" || f.State == l.State) &&
		(f.Cause == "" || f.Cause == CommonCause(l.Cause)) && (len(f.Kinds) == 0 || slices.Contains(f.Kinds, l.Kind)) && !slices.Contains(f.NotKinds, l.Kind) &&
		(len(f.IDs) == 0 || slices.Contains(f.IDs, l.ID)) && (len(f.Seqs) == 0 || slices.Contains(f.Seqs, l.Seq)) &&
		(f.After.IsZero() || !l.Last.Before(f.After)) && (f.Before.IsZero() || l.Last.Before(f.Before)) &&
		(f.Replays <= 0 || l.Replays < f.Replays) && after < l.Seq && l.Seq < before
}
