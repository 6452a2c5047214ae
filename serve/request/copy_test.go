package request_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

// full is a place that has no room.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestCopy(t *testing.T) {
	large := strings.Repeat("0123456789", 50_000)
	for _, c := range []struct {
		name   string
		body   io.Reader
		length int64 // as it is said; -1: nobody says it
		limit  int
		status int // 0: it is taken
	}{
		{"as large as may be", strings.NewReader(large), -1, len(large), 0},
		{"a byte more", strings.NewReader(large), -1, len(large) - 1, 413},
		{"a byte more, as it is said", strings.NewReader(large), int64(len(large)), len(large) - 1, 413},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(large)), -1, len(large), 0},
		{"nothing", strings.NewReader(""), 0, 10, 0},
		{"one that ends early", io.MultiReader(strings.NewReader(large), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, 2 * len(large), 400},
	} {
		var to bytes.Buffer
		r := httptest.NewRequest("POST", "/", c.body)
		r.ContentLength = c.length
		n, p, err := request.Copy(&to, httptest.NewRecorder(), r, int64(c.limit), time.Minute)
		switch {
		case err != nil || n != int64(to.Len()) || to.Len() > c.limit || !strings.HasPrefix(large, to.String()):
			t.Errorf("%s: %d bytes of %d, %v", c.name, n, to.Len(), err)
		case p == nil && (c.status != 0 || c.length != 0 && to.Len() != len(large)):
			t.Errorf("%s: %d bytes are taken, want %d", c.name, to.Len(), c.status)
		case p != nil && (p.Status != c.status || p.Text == ""):
			t.Errorf("%s: %+v, want %d", c.name, p, c.status)
		}
	}
	if _, p, err := request.Copy(full{}, httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader("x")), 10, time.Minute); p != nil || !errors.Is(err, errFull) {
		t.Errorf("a disk that is full: %v, %v", p, err)
	}
}
