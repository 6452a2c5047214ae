package partner

import (
	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
)

// Encoder is the mapping of a description alone.
func Encoder(p Partner, settings map[string]string) (func(*tidemill.Message) error, error) {
	p.Settings = settings
	m, err := p.mapping(&Env{Key: func(m *tidemill.Message) string { return m.ID }})
	if err != nil {
		return nil, err
	}
	var r httpsink.Request
	return func(msg *tidemill.Message) error {
		r.Body = r.Body[:0]
		return m.encode(msg, &r)
	}, nil
}

// Rules are those of a description alone.
func Rules(p Partner) (judge func(*httpsink.Answer) (httpsink.Verdict, bool), items func(*httpsink.Answer, []string) ([]httpsink.Verdict, error), err error) {
	r, err := newRules(&p)
	if err != nil {
		return nil, nil, err
	}
	return r.judge, r.items, nil
}

// Decoded and Encoded are the ways of values into expressions and out of them.
func Decoded(text []byte) (any, error)          { return decode(text) }
func Encoded(dst []byte, v any) ([]byte, error) { return encode(dst, v, 0) }
