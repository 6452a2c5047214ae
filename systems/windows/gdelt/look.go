package gdelt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
)

// Look looks for new files and accepts the complete ones, as many as the backlog has room for.
// When it returns, the rows of those files are durable as accepted. Receive looks by itself
// when idle; call Look when new files are announced. An error says that the folder or list
// could not be read, or that something could not be stored. A file that cannot be read at the
// moment is logged and tried again.
func (s *Source) Look(ctx context.Context) error {
	select {
	case s.look <- struct{}{}:
		defer func() { <-s.look }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	found, err := s.candidates(ctx)
	if err != nil {
		return err
	}
	for _, c := range found {
		if err := s.consider(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// load takes over what was open before a start.
func (s *Source) load(ctx context.Context) error {
	s.mu.Lock()
	loaded := s.loaded
	s.mu.Unlock()
	if loaded {
		return nil
	}
	open, err := s.files.Open(ctx)
	if err != nil {
		return err
	}
	if err := s.place.tidy(func(name string) bool {
		return slices.ContainsFunc(open, func(f progress.File) bool { return f.Name == name })
	}); err != nil {
		// Logged when what earlier downloads left could not be removed.
		// To do: correct the rights of the folder; the files take room until then.
		s.o.Log.WarnContext(ctx, "files that nobody needs could not be removed", "source", s.place.String(), "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded {
		return nil
	}
	for i := range open {
		f := newFile(open[i])
		f.begun = true
		s.open = append(s.open, f)
	}
	s.loaded = true
	return nil
}

func newFile(f progress.File) *file {
	n, _ := ParseName(f.Name)
	at := n.Time()
	if at.IsZero() {
		at = f.Mod
	}
	return &file{File: f, name: n, batch: []byte(n.Batch), time: at, out: map[uint64]hand{}}
}

// room is how many more files may be open.
func (s *Source) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.o.Backlog - len(s.open)
}

// markEvery is how often the listed files are noted.
const markEvery = 24 * time.Hour

// candidate is a file that may have to be read.
type candidate struct {
	entry
	known progress.File // what is remembered of its name, broken or done; or the zero value
}

// candidates are the first files, by name, that are complete and either unknown, or broken or
// done and now look different.
func (s *Source) candidates(ctx context.Context) ([]candidate, error) {
	room, now := s.room(), s.o.Now()
	mark := now.Sub(s.marked) >= markEvery
	if room <= 0 && !mark {
		return nil, nil
	}
	over := func(_ string, until time.Time) bool { return !now.Before(until) }
	maps.DeleteFunc(s.avoid, over)
	maps.DeleteFunc(s.rest, over)
	s.mu.Lock()
	wanted := maps.Clone(s.wanted)
	s.mu.Unlock()
	seen, same := s.seen, s.same
	s.seen, s.same = map[string]sight{}, map[string]sight{} // nothing is kept of files that are gone
	var found []candidate                                   // the first room of them, sorted
	more := false
	var step []entry
	flush := func() error {
		names := make([]string, len(step))
		for i, e := range step {
			names[i] = e.name
		}
		known, err := s.files.Find(ctx, names)
		if err != nil {
			return err
		}
		if mark {
			if err := s.files.Listed(ctx, names, now); err != nil {
				return err
			}
		}
		for i, e := range step {
			switch k := &known[i]; {
			case k.Status == progress.Open:
			case k.Status == progress.Done && s.unchanged(e.name, k, same):
				s.removeDone(ctx, e.name)
			default:
				at, twice := slices.BinarySearchFunc(found, e.name, func(c candidate, name string) int { return strings.Compare(c.name, name) })
				more = more || at >= room
				if _, avoid := s.avoid[e.name]; avoid || twice || at >= room || !s.complete(e, k, seen, now) {
					continue
				}
				found = slices.Insert(found, at, candidate{e, *k})
				if len(found) > room {
					found, more = found[:room], true
				}
			}
		}
		step = step[:0]
		return nil
	}
	err := s.place.list(ctx, func(e entry) error {
		delete(wanted, e.name)
		if e.name < s.o.Since {
			return nil
		}
		if step = append(step, e); len(step) < listStep {
			return nil
		}
		return flush()
	})
	for name, from := range wanted { // and is no longer listed
		step = append(step, entry{name: name, from: from, size: -1})
	}
	if err == nil && len(step) > 0 {
		err = flush()
	}
	s.mu.Lock()
	s.more = more && err == nil
	s.mu.Unlock()
	if err != nil || !mark {
		return found, err
	}
	s.marked = now
	n, err := s.files.Forget(ctx, now.Add(-s.o.Remember))
	if n > 0 {
		// Logged when files that are done were listed no more for 30 days.
		s.o.Log.InfoContext(ctx, "files that are listed no more were forgotten", "source", s.place.String(), "count", n)
	}
	return found, err
}

// unchanged reports whether a done file still looks like the one that was read, or like one
// that was found to have the same bytes. If only fetching can tell, it counts as unchanged. A
// file that was given up was not read, and does not.
func (s *Source) unchanged(name string, known *progress.File, same map[string]sight) bool {
	info, err := s.place.look(name)
	if err != nil || info == nil {
		return true
	}
	if known.Lost > 0 {
		return false
	}
	size, mod := info.Size(), info.ModTime().Truncate(time.Millisecond)
	if known.Size == size && known.Mod.Equal(mod) {
		return true
	}
	before, ok := same[name]
	if ok = ok && before.size == size && before.mod.Equal(mod); ok {
		s.same[name] = before
	}
	return ok
}

// removeDone removes a file that is done, if Options.Remove asks for it.
func (s *Source) removeDone(ctx context.Context, name string) {
	if !s.o.Remove || !s.place.keeps() {
		return
	}
	if err := s.place.remove(name); err != nil {
		s.stays(ctx, name, err)
	}
}

func (s *Source) stays(ctx context.Context, name string, err error) {
	// Logged when a file of which all rows have ended was to be removed, and could not be.
	// To do: correct the rights of the folder, and remove the file; it is not read again.
	s.o.Log.WarnContext(ctx, "a file that is done stays", "file", name, "error", err)
}

// consider accepts a complete file, or refuses it. A file in the place of a done one is read if
// its bytes differ.
func (s *Source) consider(ctx context.Context, c candidate) error {
	path, err := s.place.fetch(ctx, c.entry)
	var found Found
	if err == nil {
		n, _ := ParseName(c.name)
		found, err = checkBy(ours, path, n, s.o.Limits)
	}
	damage, broken := errors.AsType[*Damage](err)
	if err != nil && !broken {
		return s.later(ctx, c.name, err)
	}
	if c.known.Status == progress.Done {
		if !broken && found.Sum == c.known.Sum && c.known.Lost == 0 {
			s.same[c.name] = sight{size: found.Size, mod: found.Mod}
			return nil
		}
		// Logged when a file that is done was replaced by another of the same name.
		// To do: nothing, if it was meant: records that are the same are recognised by their ids.
		s.o.Log.WarnContext(ctx, "a file that was read is another now: all of it is read", "file", c.name)
	}
	f := progress.File{Name: c.name, From: c.from, Size: found.Size, Mod: found.Mod, Sum: found.Sum, Rows: found.Rows, Idless: found.Idless, Status: progress.Open}
	switch {
	case broken:
		f.Status, f.Cause = progress.Broken, damage.Why
		s.rest[f.Name] = s.o.Now().Add(restFor)
		if !s.place.keeps() && c.known.Status == progress.Broken && c.known.From == f.From && !s.wants(f.Name) {
			s.unneeded(ctx, f.Name)
			return nil // its dead letter exists, or was deleted
		}
		if err := s.bury(ctx, &f); err != nil {
			return s.later(ctx, c.name, err) // others go on
		}
	case f.Rows == 0:
		f.Status = progress.Done
	}
	if err := s.files.Add(ctx, &f); err != nil {
		return fmt.Errorf("accept file %s: %w", c.name, err)
	}
	s.mu.Lock()
	delete(s.wanted, f.Name)
	s.mu.Unlock()
	if f.Status != progress.Open {
		if broken {
			// Logged when a file is damaged, or larger than is allowed; nothing of it is read.
			// To do: put a sound one in its place; it is looked at again.
			s.o.Log.WarnContext(ctx, "a file is refused, it is a dead letter", "file", f.Name, "why", f.Cause)
		}
		s.unneeded(ctx, f.Name)
		return nil
	}
	if f.Idless > 0 {
		// Logged when a file was accepted, and some of its rows have no id.
		// To do: see where the file comes from: what cannot be named cannot be delivered once.
		s.o.Log.WarnContext(ctx, "rows of a file have no id and are skipped", "file", f.Name, "count", f.Idless, "rows", f.Rows)
	}
	s.mu.Lock()
	s.open = append(s.open, newFile(f))
	s.mu.Unlock()
	signal(s.wake)
	return nil
}

// unneeded removes a fetched file that no rows are handed out of.
func (s *Source) unneeded(ctx context.Context, name string) {
	if s.place.keeps() {
		return
	}
	if err := s.place.remove(name); err != nil {
		// Logged when a downloaded file was refused, and could not be removed.
		// To do: correct the rights of the folder; it is tried again at the next start.
		s.o.Log.WarnContext(ctx, "a file that nobody needs stays", "file", name, "error", err)
	}
}

// restFor is how long until a refused file of a list is asked for again: the server may have or
// have mended it by then.
const restFor = 24 * time.Hour

// complete reports whether a file is to be read now: it does not grow, and if it was broken it
// has changed, may have, or was asked for again. known is a broken file of its name, or the
// zero value.
func (s *Source) complete(e entry, known *progress.File, seen map[string]sight, now time.Time) bool {
	wanted := s.wants(e.name)
	info, err := s.place.look(e.name)
	switch {
	case err != nil:
		return false // it is gone again
	case info == nil:
		_, rests := s.rest[e.name]
		return known.Status != progress.Broken || known.From != e.from || wanted || !rests
	case info.Size() == 0:
		return false // it was created, and is written later
	}
	look := sight{info.Size(), info.ModTime().Truncate(time.Millisecond), now}
	if known.Status == progress.Broken && known.Size == look.size && known.Mod.Equal(look.mod) && !wanted {
		return false
	}
	if s.o.Quiet < 0 || now.Sub(look.mod) >= s.o.Quiet {
		return true
	}
	if before, ok := seen[e.name]; ok && before.size == look.size && before.mod.Equal(look.mod) {
		look.since = before.since
	}
	s.seen[e.name] = look
	return now.Sub(look.since) >= s.o.Quiet
}

// avoidFor is how long a file is skipped that could not be read.
const avoidFor = time.Minute

// later notes that a file cannot be read at the moment, so that others are read.
func (s *Source) later(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now := s.o.Now()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, errGrowing):
		s.avoid[name] = now.Add(s.o.Every)
		return nil
	}
	s.avoid[name] = now.Add(avoidFor)
	// Logged when a listed file cannot be opened or downloaded; others are read meanwhile.
	// To do: see what the error names, if it goes on.
	s.o.Log.WarnContext(ctx, "a file cannot be read now, it is tried again", "file", name, "error", err)
	return nil
}

// bury keeps a broken file as a dead letter. Its payload describes the file, which stays where
// it is.
func (s *Source) bury(ctx context.Context, f *progress.File) error {
	from := f.From
	if from == "" {
		from = s.place.String()
	}
	payload, err := json.Marshal(map[string]any{"file": f.Name, "from": from, "bytes": f.Size, "reason": f.Cause})
	if err != nil {
		return err
	}
	now := s.o.Now()
	err = s.dead.Put(ctx, []tidemill.DeadLetter{{
		Pipeline: s.o.Pipeline,
		Message: &tidemill.Message{ID: f.Name, Type: "file", To: s.place.String(), Payload: payload, Time: now,
			Header: []tidemill.Field{{Name: []byte("content-type"), Value: []byte("application/json")}}},
		Kind: tidemill.Validation, Cause: fmt.Sprintf("file %s is refused: %s", f.Name, f.Cause), Tries: 1, At: now,
	}})
	if err != nil {
		return fmt.Errorf("put file %s into the dead letters: %w", f.Name, err)
	}
	return nil
}
