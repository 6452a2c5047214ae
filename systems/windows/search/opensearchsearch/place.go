package opensearchsearch

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// Servers limit the number of shards, and records may name any day. So a day has an index of
// its own if it has one already, or if it is a kept day and the hour's new indices are not used
// up. All other documents go to one index per month of arrival.

// far is the part of a common index's name before its month.
const far = "far-"

const (
	lookBack = 5 * 365 * 24 * time.Hour // where indices are kept for ever
	ahead    = 24 * time.Hour           // a day begins earlier elsewhere
)

// lookAgain is how often the server is asked for its indices while a day has no known one.
const lookAgain = time.Minute

// places knows the existing indices, and how many were made in this hour.
type places struct {
	mu       sync.Mutex // guards what follows; held for work in memory only
	there    map[string]bool
	looked   time.Time
	hour     time.Time // when the first of made was made
	made     int
	overflow uint64 // documents that found the hour's new indices used up
}

// Overflow is how many documents went to a common index because the new indices of an hour
// were used up.
func (s *Store) Overflow() uint64 {
	s.places.mu.Lock()
	defer s.places.mu.Unlock()
	return s.places.overflow
}

// stale reports whether an index is unknown, and the server was not asked lately.
func (p *places) stale(index string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.there[index] && now.Sub(p.looked) >= lookAgain
}

// learn replaces the known indices.
func (p *places) learn(made map[string]time.Time, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.looked = make(map[string]bool, len(made)), now
	for index := range made {
		p.there[index] = true
	}
}

// take reports whether an index may be written to: it exists, or may be made.
func (p *places) take(index string, kept bool, most int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.there[index] {
		return true
	}
	if !kept {
		return false
	}
	if now.Sub(p.hour) >= time.Hour {
		p.hour, p.made = now, 0
	}
	if p.made >= most {
		p.overflow++
		return false
	}
	p.made++
	p.there[index] = true
	return true
}

// place finds the index of each document that stands.
func (c *call) place(ctx context.Context, stand []int) error {
	s, now := c.store, c.store.o.Now()
	c.indices = make([]string, len(c.docs))
	for i := range c.docs {
		if stand[i] != i {
			continue
		}
		d := &c.docs[i]
		schema := s.schemas[d.Schema]
		index := schema.Index(d.Day)
		if s.places.stale(index, now) { // another instance may have made it
			made, err := s.made(ctx, s.all())
			if err != nil && opensearchhttp.Status(err) != http.StatusForbidden { // a user that may write need not be allowed to look
				return fmt.Errorf("look which indices there are: %w", blameless(err))
			}
			s.places.learn(made, now)
		}
		if !s.places.take(index, kept(schema, d.Day, now), s.o.NewIndices, now) {
			index = schema.Name + "-" + far + now.UTC().Format("2006-01")
		}
		c.indices[i] = index
	}
	return nil
}

// made are indices by a pattern, with the time when each was made.
func (s *Store) made(ctx context.Context, pattern string) (map[string]time.Time, error) {
	answer, err := s.conn.Do(ctx, http.MethodGet, "/"+pattern+"/_settings/index.creation_date?expand_wildcards=all&ignore_unavailable=true&allow_no_indices=true", nil)
	if opensearchhttp.Status(err) == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var said map[string]struct {
		Settings struct {
			Index struct {
				Made string `json:"creation_date"`
			} `json:"index"`
		} `json:"settings"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return nil, tidemill.Fail(tidemill.Transient, "the answer cannot be read")
	}
	made := make(map[string]time.Time, len(said))
	for index, of := range said {
		if ms, err := strconv.ParseInt(of.Settings.Index.Made, 10, 64); err == nil {
			made[index] = time.UnixMilli(ms)
		}
	}
	return made, nil
}

// kept reports whether a day has an index of its own.
func kept(s *search.Schema, day string, now time.Time) bool {
	back := s.Keep
	if back == 0 {
		back = lookBack
	}
	now = now.UTC()
	return now.Add(-back).Format(time.DateOnly) <= day && day <= now.Add(ahead).Format(time.DateOnly)
}

// common reports whether an index, by the part of its name behind its family, is a common one.
func common(rest string) bool { return strings.HasPrefix(rest, far) }

// name is the document's id in a common index: day/id, or the id where that is too long. The
// day is its routing as well: with the one shard that we ask for that changes nothing.
func name(d *search.Doc) string {
	if len(d.Day)+1+len(d.ID) > search.MaxID {
		return d.ID
	}
	return d.Day + "/" + d.ID
}

// hit is the day and the id of a document that was found.
func hit(family, index, routing, name string) (day, id string) {
	rest := strings.TrimPrefix(index, family+"-")
	if !common(rest) {
		return rest, name
	}
	return routing, strings.TrimPrefix(name, routing+"/")
}
