package redisqueue

import (
	"context"
	"strconv"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
)

// Payloads of a queue are much alike, and too short to be compressed one by one: each queue
// has a dictionary, made of the first payloads that come, once and for all. JSON events of 560
// bytes take 190 with it.
const (
	packFrom   = 256      // bytes: shorter bodies are not worth the time
	dictBytes  = 24 << 10 // of payloads, that a dictionary is made of
	dictSample = 1 << 10  // bytes of each at the most
	dictJobs   = 16       // at the least
)

// dict is the dictionary of a queue. Nil has none.
type dict struct {
	mu      sync.Mutex // guards all but s2
	asked   bool       // whether Redis has one
	samples []byte
	jobs    int
	s2      *s2.Dict // set once, before anybody has the dict to pack with
}

// pack compresses a body, or returns nil where that is not worth it.
func (d *dict) pack(body []byte) []byte {
	if d == nil || d.s2 == nil || len(body) < packFrom {
		return nil
	}
	packed := d.s2.Encode(nil, body)
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

// packer is the dictionary that jobs for a queue are packed with; nil: none yet. Then these
// jobs are samples for one.
func (s *Store) packer(ctx context.Context, queue string, jobs []*tidemill.Message) (*dict, error) {
	d := s.dict(queue)
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
