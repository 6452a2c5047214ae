package redisqueue

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// Payloads of a queue are much alike, and too short to be compressed one by one: each queue has
// a dictionary (in each shard), made of its first payloads. Redis may lose it, with all jobs
// that were packed with it, while we still have it: every script that adds packed jobs checks
// that it exists, and we learn a new one if it does not. JSON events of 560 bytes take 190 with
// it. Packing one costs as much CPU as everything else that is done here to add it, and the
// saving matters only where many jobs wait. So bodies stay unpacked if they are small and the
// queue holds few jobs, which is at most 150 MB of a queue: the ingest API accepts 6% more that
// way.
const (
	plainJobs  = 250_000 // jobs in a queue below which small bodies are left unpacked
	plainBytes = 1 << 10 // the largest small body

	packFrom   = 256      // bytes: shorter bodies are not worth the time
	dictBytes  = 24 << 10 // size of a dictionary, made of payloads
	dictSample = 1 << 10  // bytes of each at most
	dictJobs   = 16       // payloads at least
)

// dict is the known state of a queue's dictionary.
type dict struct {
	held atomic.Int64 // jobs of the queue in the shard, as Redis said at the last addition

	mu      sync.Mutex // guards what follows
	asked   bool       // whether Redis has one
	samples []byte
	jobs    int
	words   *words // nil: none yet
}

// dictKey names the queue and shard of a dictionary.
type dictKey struct {
	shard int
	queue string
}

// words is a dictionary. Nil has none.
type words struct {
	s2  *s2.Dict
	sum string // its identity in scripts
}

// packer packs bodies of a queue. The zero packer packs none.
type packer struct {
	*words
	from int // bytes: shorter bodies are left as they are
}

// pack compresses a body, or returns nil where that is not worth it.
func (p packer) pack(body []byte) []byte {
	if p.words == nil || len(body) < p.from {
		return nil
	}
	packed := p.s2.Encode(nil, body)
	if len(packed) >= len(body)-len(body)/16 {
		return nil
	}
	return packed
}

// unpack is the inverse of pack, into memory that may be used.
func (w *words) unpack(into []byte, packed string) ([]byte, error) {
	if w == nil {
		return into, errRecord
	}
	body, err := w.s2.Decode(into[:cap(into)], []byte(packed))
	if err != nil {
		return into, errRecord
	}
	return body, nil
}

// pack is a dictionary that records of a script are packed with.
type pack struct{ queue, sum string }

// with adds a queue's to those of a script.
func (w *words) with(all []pack, queue string) []pack {
	if w == nil {
		return all
	}
	return merge(all, []pack{{queue, w.sum}})
}

// merge adds dictionaries that are not among a script's.
func merge(all, more []pack) []pack {
	for _, p := range more {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// packed ends the arguments of a script (see packed in common.lua).
func packed(args []string, all []pack) []string {
	for _, p := range all {
		args = append(args, p.queue, p.sum)
	}
	return append(args, strconv.Itoa(len(all)))
}

// packTries is how often jobs are packed at most: anew after errLost.
const packTries = 5

// errLost says that nothing happened, because a dictionary is not in Redis (any more).
var errLost = tidemill.Fail(tidemill.Transient, "Redis lost what jobs are packed with")

// forget drops dictionaries that Redis does not have any more.
func (s *Store) forget(shard int, all []pack) {
	for _, p := range all {
		d := s.dict(shard, p.queue)
		d.mu.Lock()
		if d.words != nil && d.words.sum == p.sum {
			d.words, d.asked = nil, false
		}
		d.mu.Unlock()
	}
}

// dict returns the known state of a queue's dictionary.
func (s *Store) dict(shard int, queue string) *dict {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := dictKey{shard, queue}
	d := s.dicts[k]
	if d == nil {
		d = &dict{}
		s.dicts[k] = d
	}
	return d
}

// adder is the packer of jobs that are added to a queue.
func (s *Store) adder(ctx context.Context, shard int, queue string, jobs []*tidemill.Message) (packer, error) {
	d := s.dict(shard, queue)
	p, err := s.packerWith(ctx, d, shard, queue, jobs)
	if d.held.Load()*int64(len(s.tags)) < s.o.plain {
		p.from = plainBytes + 1
	}
	return p, err
}

// packer packs jobs for a queue, once it has a dictionary. Before that these jobs are
// samples for one.
func (s *Store) packer(ctx context.Context, shard int, queue string, jobs []*tidemill.Message) (packer, error) {
	return s.packerWith(ctx, s.dict(shard, queue), shard, queue, jobs)
}

func (s *Store) packerWith(ctx context.Context, d *dict, shard int, queue string, jobs []*tidemill.Message) (packer, error) {
	d.mu.Lock()
	if d.words != nil {
		defer d.mu.Unlock()
		return packer{d.words, packFrom}, nil
	}
	asked := d.asked
	for _, m := range jobs {
		if m.To == queue && len(m.Payload) >= packFrom && len(d.samples) < dictBytes {
			d.samples = append(d.samples, m.Payload[:min(len(m.Payload), dictSample)]...)
			d.jobs++
		}
	}
	var offer []byte
	if d.jobs >= dictJobs && len(d.samples) >= dictBytes {
		offer = d.samples
	}
	d.mu.Unlock()
	if asked && offer == nil {
		return packer{}, nil
	}
	w, err := s.learn(ctx, shard, queue, offer)
	return packer{w, packFrom}, err
}

// learn asks Redis for the dictionary of a queue, after offering one if it has none.
func (s *Store) learn(ctx context.Context, shard int, queue string, offer []byte) (*words, error) {
	text := ""
	if offer != nil {
		made := s2.MakeDict(offer, nil)
		if made == nil {
			return nil, nil
		}
		text = rueidis.BinaryString(made.Bytes())
	}
	got, err := s.run(ctx, learnScript, shard, queue, text).AsStrSlice()
	if err != nil {
		return nil, failed(err, "read the dictionary of queue %q", queue)
	}
	if len(got) != 2 {
		return nil, reply("read the dictionary of queue " + strconv.Quote(queue))
	}
	d := s.dict(shard, queue)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = true
	if got[0] == "" {
		return nil, nil
	}
	w := &words{s2.NewDict([]byte(got[0])), got[1]}
	if w.s2 == nil {
		return nil, reply("read the dictionary of queue " + strconv.Quote(queue))
	}
	d.words, d.samples, d.jobs = w, nil, 0
	return w, nil
}

// unpacker is the dictionary with this sum, for unpacking records of a queue.
func (s *Store) unpacker(ctx context.Context, shard int, queue, sum string, recs ...string) (*words, error) {
	d := s.dict(shard, queue)
	d.mu.Lock()
	w := d.words
	d.mu.Unlock()
	if w != nil && w.sum == sum {
		return w, nil
	}
	for _, rec := range recs {
		if len(rec) > addedBytes && rec[addedBytes] == formDict {
			return s.learn(ctx, shard, queue, nil)
		}
	}
	return nil, nil
}
