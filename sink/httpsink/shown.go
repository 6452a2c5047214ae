package httpsink

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/urlsecret"
)

// Shown is the request of a message, to be looked at: what is or may be a secret is masked, and what
// Auth adds when it is sent is not there.
type Shown struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	Signed      bool // Auth adds our credentials
}

// Show is the request that a message would make alone. Nothing is sent. Its error is that of Encode.
func (s *Sink) Show(m *tidemill.Message) (*Shown, error) {
	w := &write{sink: s}
	if err := s.o.Encode(m, &w.shared); err != nil {
		return nil, err
	}
	if err := checkRequest(&w.shared); err != nil {
		return nil, tidemill.Fail(tidemill.Validation, "%s: %w", s.o.Name, err)
	}
	w.arena = w.shared.Body
	body := w.assemble([]item{{end: len(w.arena)}})
	r, err := w.build(body)
	if err != nil {
		return nil, err
	}
	if key := s.o.Key(m); s.keyAs != "" && key != "" {
		if !httpguts.ValidHeaderFieldValue(key) {
			key = hash(key)
		}
		put(r.Header, s.keyAs, key)
	}
	out := &Shown{Method: r.Method, URL: s.blotText(urlsecret.Show(r.URL.String())), Header: http.Header{}, Body: []byte(s.blotText(string(body))), Signed: len(s.o.Auth) > 0}
	for name, values := range r.Header {
		for _, value := range values {
			if !strings.EqualFold(name, s.keyAs) && urlsecret.InHeader(name, value) {
				value = urlsecret.Hidden
			}
			out.Header.Add(name, s.blotText(value))
		}
	}
	return out, nil
}
