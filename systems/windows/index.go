package windows

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
)

// reader is a pipeline that puts delivered records into the index. Records of one key are
// indexed in order. Each record that the index refuses becomes a dead letter by itself.
func (s *System) reader(name string, source tidemill.Source, r *Reader, version func(*tidemill.Message) uint64) flow.Pipeline {
	p := s.pipeline(name, source)
	p.Dead, p.Batch, p.Lanes, p.Lane = s.p.DeadLetters, 1000, 2, flow.ByKey
	if r.Copies != nil {
		p.Dead = copying{DeadLetters: s.p.DeadLetters, to: r.Copies, topic: r.Dead, log: s.o.Log}
	}
	p.Rules = policy.Table{
		tidemill.Transient: {Do: policy.Retrying, Blames: true},
		tidemill.Timeout:   {Do: policy.Retrying, Blames: true},
		tidemill.Partner:   {Do: policy.Retrying, Blames: true},
		tidemill.Unknown:   {Do: policy.Retrying, Blames: true}, // a document that is indexed again replaces itself
	}
	p.Breaker = policy.Breaker{Fails: 3, Open: s.o.Breaker.Open}
	p.Handouts = handouts
	p.Work = func(env flow.Env) flow.Work {
		l := &indexing{index: s.p.Index}
		return flow.Steps[search.Doc]{
			Decode: func(m *tidemill.Message, d *search.Doc) (err error) {
				if *d, err = r.Schema.Doc(s.document(m), m.Payload); err == nil && version != nil {
					d.Version = version(m)
				}
				return err
			},
			Stages: []flow.Stage[search.Doc]{{Name: "index", Repeat: true, Do: l.do}},
		}.Lane(env)
	}
	return p
}

// document is the identity of a record's document: its key, or with Options.BySentence its key
// and sentence, as record.AppendQualifiedKey writes them. If the record names a project, the
// project goes before it: each project has its own document of a key.
func (s *System) document(m *tidemill.Message) []byte {
	id := m.Key
	if project := record.AppendProject(nil, m); len(project) > 0 && len(id) > 0 {
		id = append(project, id...)
	}
	if !s.o.BySentence {
		return id
	}
	sentence := gjson.GetBytes(m.Payload, record.Mention.Name(record.SentenceID))
	if !sentence.Exists() { // an event
		return id
	}
	id = append(slices.Clone(id), '_') // also without a sentence: else the document x_1 would be sentence 1 of x
	if sentence.Type == gjson.Number {
		id = append(id, sentence.Raw...)
	}
	return id
}

// indexing is the work of one lane.
type indexing struct {
	index search.Indexer
	docs  []search.Doc
}

func (l *indexing) do(ctx context.Context, batch []*flow.Item[search.Doc]) error {
	l.docs = l.docs[:0]
	for _, it := range batch {
		l.docs = append(l.docs, it.Value)
	}
	return l.index.Index(ctx, l.docs)
}
