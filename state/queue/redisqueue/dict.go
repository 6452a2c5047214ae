package redisqueue

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// Payloads of a queue are much alike, and too short to be compressed one by one: each queue
// has a dictionary, made of the first payloads that come, once and for all. JSON events of 560
// bytes take 190 with it. Packing one costs as much CPU as all else that is done here to add it,
// and saves what matters only where many wait: who adds to a queue that holds few leaves small
// bodies as they are, which is 150 MB of a queue at the most: the door takes 6% more so.
const (
	plainJobs  = 250_000 // that a queue holds at the most where small bodies are left as they are
	plainBytes = 1 << 10 // how long those are at the most

	packFrom   = 256      // bytes: shorter bodies are not worth the time
	dictBytes  = 24 << 10 // of payloads, that a dictionary is made of
	dictSample = 1 << 10  // bytes of each at the most
	dictJobs   = 16       // at the least
)

// dict is the dictionary of a queue. Nil has none.
type dict struct {
	held atomic.Int64 // jobs of the queue, as Redis said when some were added last

	mu      sync.Mutex // guards all but held and s2
	asked   bool       // whether Redis has one
	samples []byte
	jobs    int
	s2      *s2.Dict // set once, before anybody has the dict to pack with
}

// packer packs bodies of a queue. The zero packer packs none.
type packer struct {
	s2   *s2.Dict
	from int // bytes: shorter bodies are left as they are
}

// pack compresses a body, or returns nil where that is not worth it.
func (p packer) pack(body []byte) []byte {
	if p.s2 == nil || len(body) < p.from {
		return nil
	}
	packed := p.s2.Encode(nil, body)
	if len(packed) >= len(body)-len(body)/16 {
		return nil
	}
	return packed
}

// unpack is the inverse of pack, into memory that may be used.
func (d *dict) unpack(into []byte, packed string) ([]byte, error) {
	if d == nil || d.s2 == nil {
		return into, errRecord
	}
	body, err := d.s2.Decode(into[:cap(into)], []byte(packed))
	if err != nil {
		return into, errRecord
	}
	return body, nil
}

// dict returns the dictionary of a queue as far as it is known.
func (s *Store) dict(queue string) *dict {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.dicts[queue]
	if d == nil {
		d = &dict{}
		s.dicts[queue] = d
	}
	return d
}

// adder is the packer of jobs that are added to a queue.
func (s *Store) adder(ctx context.Context, queue string, jobs []*tidemill.Message) (packer, error) {
	d := s.dict(queue)
	p, err := s.packerWith(ctx, queue, d, jobs)
	if d.held.Load() < s.o.plain {
		p.from = plainBytes + 1
	}
	return p, err
}

// packer packs jobs for a queue, once there is a dictionary. Before that these jobs are
// samples for one.
func (s *Store) packer(ctx context.Context, queue string, jobs []*tidemill.Message) (packer, error) {
	return s.packerWith(ctx, queue, s.dict(queue), jobs)
}

func (s *Store) packerWith(ctx context.Context, queue string, d *dict, jobs []*tidemill.Message) (packer, error) {
	d, err := s.learned(ctx, queue, d, jobs)
	if d == nil || err != nil {
		return packer{}, err
	}
	return packer{d.s2, packFrom}, nil
}

// learned is the dictionary of a queue as it is known by now; nil: there is none yet.
func (s *Store) learned(ctx context.Context, queue string, d *dict, jobs []*tidemill.Message) (*dict, error) {
	d.mu.Lock()
	if d.s2 != nil {
		d.mu.Unlock()
		return d, nil
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
		return nil, nil
	}
	return s.learn(ctx, queue, d, offer)
}

// learn asks Redis for the dictionary of a queue, after offering one if there is none.
func (s *Store) learn(ctx context.Context, queue string, d *dict, offer []byte) (*dict, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer) // what was handed out must not be lost for it
	defer cancel()
	key := s.tags[0] + "dicts"
	if offer != nil {
		made := s2.MakeDict(offer, nil)
		if made == nil {
			return nil, nil
		}
		if err := s.client.Do(ctx, s.client.B().Hsetnx().Key(key).Field(queue).Value(rueidis.BinaryString(made.Bytes())).Build()).Error(); err != nil {
			return nil, failed(err, "keep the dictionary of queue %q", queue)
		}
	}
	text, err := s.client.Do(ctx, s.client.B().Hget().Key(key).Field(queue).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, failed(err, "read the dictionary of queue %q", queue)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = true
	if text == "" || d.s2 != nil {
		return d.ready(), nil
	}
	if d.s2 = s2.NewDict([]byte(text)); d.s2 == nil {
		return nil, reply("read the dictionary of queue " + strconv.Quote(queue))
	}
	d.samples = nil
	return d, nil
}

func (d *dict) ready() *dict {
	if d.s2 == nil {
		return nil
	}
	return d
}

// unpacker is the dictionary that records of a queue are unpacked with.
func (s *Store) unpacker(ctx context.Context, queue string, recs ...string) (*dict, error) {
	d := s.dict(queue)
	d.mu.Lock()
	ready := d.ready()
	d.mu.Unlock()
	if ready != nil {
		return ready, nil
	}
	for _, rec := range recs {
		if len(rec) > addedBytes && rec[addedBytes] == formDict {
			return s.learn(ctx, queue, d, nil)
		}
	}
	return nil, nil
}
