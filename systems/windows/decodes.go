package windows

import "github.com/tidemill/tidemill"

// Decodes says whether a replay of a pipeline's dead letters could read a message. The error says
// what is wrong with it.
func (s *System) Decodes(pipeline string, m *tidemill.Message) error {
	for _, r := range s.p.Readers {
		if r.Name == pipeline {
			_, err := r.Schema.Doc(s.document(m), m.Payload)
			return err
		}
	}
	l := &storing{s: s, owned: pipeline == Delivered}
	for _, in := range s.p.Intakes {
		if in.Name == pipeline {
			l.kind = in.Kind
		}
	}
	return l.decode(m, &stored{})
}
