package clickhousewarehouse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/google/uuid"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

// block holds the columns of one insert, and their encoding. Its memory is reused by the next
// insert.
type block struct {
	ids, projects, persons      proto.ColUUID
	low                         [len(texts)]*proto.ColLowCardinality[string] // nil if plain is not
	plain                       [len(texts)]*proto.ColStr
	widths, heights             proto.ColUInt16
	properties, userProperties  proto.ColStr
	origins                     proto.ColUInt64
	timestamps, ingested, store *proto.ColDateTime64

	all    []proto.InputColumn // changing columns last
	buffer proto.Buffer
	rows   int
	seen   map[key]uint64 // events of this batch and their origins
	todo   []int          // rows of this batch that have to be stored
}

// key identifies an event, which is stored once.
type key struct{ project, id uuid.UUID }

// changing is how many columns at the end differ when a batch is tried again.
const changing = 2

func newBlock() *block {
	column := func(p proto.Precision) *proto.ColDateTime64 {
		return new(proto.ColDateTime64).WithPrecision(p).WithLocation(time.UTC)
	}
	b := &block{timestamps: column(3), ingested: column(3), store: column(6), seen: map[key]uint64{}}
	add := func(name string, c proto.ColInput) { b.all = append(b.all, proto.InputColumn{Name: name, Data: c}) }
	add("event_id", &b.ids)
	add("project_id", &b.projects)
	add("person_id", &b.persons)
	for i, t := range texts {
		if t.low {
			b.low[i] = new(proto.ColStr).LowCardinality()
			add(t.name, b.low[i])
		} else {
			b.plain[i] = new(proto.ColStr)
			add(t.name, b.plain[i])
		}
	}
	add("screen_width", &b.widths)
	add("screen_height", &b.heights)
	add("properties", &b.properties)
	add("user_properties", &b.userProperties)
	add("origin", &b.origins)
	add("timestamp", b.timestamps)
	add("ingested_at", b.ingested)
	add("stored_at", b.store)
	b.reset()
	return b
}

// add copies an event, to be stored at stamp, in microseconds.
func (b *block) add(e *event.Event, stamp int64) {
	b.ids = append(b.ids, e.ID)
	b.projects = append(b.projects, e.Project)
	b.persons = append(b.persons, e.Person)
	for i := range texts {
		if v := *texts[i].of(e); texts[i].low {
			b.low[i].Append(v)
		} else {
			b.plain[i].Append(v)
		}
	}
	b.widths = append(b.widths, e.ScreenWidth)
	b.heights = append(b.heights, e.ScreenHeight)
	addObject(&b.properties, e.Properties)
	addObject(&b.userProperties, e.UserProperties)
	b.origins = append(b.origins, e.Origin)
	b.timestamps.AppendRaw(proto.DateTime64(e.Timestamp.UnixMilli()))
	b.ingested.AppendRaw(proto.DateTime64(e.IngestedAt.UnixMilli()))
	b.store.AppendRaw(proto.DateTime64(stamp))
	b.rows++
}

// emptyObject stands for no properties: readers expect JSON.
const emptyObject = "{}"

func addObject(c *proto.ColStr, object []byte) {
	if len(object) == 0 {
		c.Append(emptyObject)
		return
	}
	c.AppendBytes(object)
}

// encode returns the encoded block, and its token: a hash of everything but the times of
// ingesting and storing, which differ when the same batch is tried again. Another batch has
// another token: the server drops a batch whose token it knows, whatever its content.
func (b *block) encode() (encoded []byte, token string, err error) {
	b.buffer.Reset()
	n := len(b.all) - changing
	if err := (proto.Block{Columns: len(b.all), Rows: b.rows}).EncodeRawBlock(&b.buffer, 0, b.all[:n]); err != nil {
		return nil, "", fmt.Errorf("encode a block of %d rows: %w", b.rows, err)
	}
	hash := sha256.Sum256(b.buffer.Buf)
	for _, c := range b.all[n:] {
		c.EncodeStart(&b.buffer, 0)
		c.Data.EncodeColumn(&b.buffer)
	}
	return b.buffer.Buf, hex.EncodeToString(hash[:]), nil
}

// reset empties the block for another batch.
func (b *block) reset() {
	b.clear()
	clear(b.seen)
	b.todo = b.todo[:0]
}

// clear empties the columns, and releases the events' memory.
func (b *block) clear() {
	for _, c := range b.all {
		if r, ok := c.Data.(proto.Resettable); ok {
			r.Reset()
		}
	}
	for _, c := range b.low {
		if c != nil {
			clear(c.Values[:cap(c.Values)]) // strings of events
		}
	}
	b.buffer.Reset()
	b.rows = 0
}

// take gets a spare block, or makes one.
func (s *Store) take() *block {
	select {
	case b := <-s.blocks:
		return b
	default:
		return newBlock()
	}
}

// give keeps a block as spare, unless it has much memory.
func (s *Store) give(b *block) {
	if cap(b.buffer.Buf) > blockBytes {
		return
	}
	b.reset()
	select {
	case s.blocks <- b:
	default:
	}
}
