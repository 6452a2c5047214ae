package kafkasink

import (
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
)

// writing is a batch being written: records as the client has them, and the brokers'
// answers. The client may hold them for longer than the caller waits, so all of it is
// copied. Once the brokers have accepted every record the memory is used again.
type writing struct {
	records []kgo.Record
	bytes   []byte // keys, values and headers
	waiting atomic.Int64
	all     chan struct{} // closed when every record was answered

	mu     sync.Mutex // guards failed
	failed []tidemill.Failed
}

// writings are free ones, which concurrent callers share. The zero value is ready to use.
type writings struct{ free sync.Pool }

// keptBytes is the largest batch whose memory is used again.
const keptBytes = 16 << 20

// take makes room for a batch.
func (p *writings) take(batch []*tidemill.Message) *writing {
	w, _ := p.free.Get().(*writing)
	if w == nil {
		w = new(writing)
	}
	if n := size(batch); cap(w.bytes) < n {
		w.bytes = make([]byte, 0, n+n/8) // the next one may be a little larger
	}
	if len(w.records) < len(batch) {
		w.records = make([]kgo.Record, len(batch))
	}
	w.all = make(chan struct{})
	w.waiting.Store(int64(len(batch)))
	return w
}

// giveBack gives back the memory of a batch whose records were all accepted.
func (p *writings) giveBack(w *writing) {
	if cap(w.bytes) <= keptBytes {
		clear(w.records)
		w.bytes = w.bytes[:0]
		p.free.Put(w)
	}
}

// answered takes the brokers' answer to a record.
func (w *writing) answered(r *kgo.Record, err error) {
	if err == nil {
		w.done()
		return
	}
	for i := range w.records { // a linear search, for a rare case
		if &w.records[i] == r {
			w.answer(i, err)
			return
		}
	}
}

// answer notes the error of a failed record.
func (w *writing) answer(i int, err error) {
	w.mu.Lock()
	w.failed = append(w.failed, tidemill.Failed{Index: i, Err: err})
	w.mu.Unlock()
	w.done()
}

func (w *writing) done() {
	if w.waiting.Add(-1) == 0 {
		close(w.all)
	}
}

// record is a message as Kafka has it: key, value and headers as they are.
func (w *writing) record(i int, m *tidemill.Message, topic string) *kgo.Record {
	r := &w.records[i]
	*r = kgo.Record{Topic: topic, Value: w.own(m.Payload)} // not nil: a record without a value means that its key is deleted
	if len(m.Key) > 0 {
		r.Key = w.own(m.Key)
	}
	for _, f := range m.Trace.Put(m.Header) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(f.Name), Value: w.own(f.Value)})
	}
	return r
}

// own copies bytes. They must fit: slices given out before must not move.
func (w *writing) own(b []byte) []byte {
	start := len(w.bytes)
	w.bytes = append(w.bytes, b...)
	return w.bytes[start:len(w.bytes):len(w.bytes)]
}

// size is how many bytes record copies for a batch.
func size(batch []*tidemill.Message) (n int) {
	for _, m := range batch {
		n += len(m.Payload) + len(m.Key)
		for _, f := range m.Trace.Put(m.Header) {
			n += len(f.Value)
		}
	}
	return n
}
