package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve"
)

// A proxy and a server that see different ends of a request let one sender put a request of its
// own before another's. So what could be seen in two ways is the last of its connection, whatever
// comes behind it.
func TestOneRequestIsNotTwo(t *testing.T) {
	s := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	}), serve.Limits{}, time.Second)
	defer s.ended(t)
	const next = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
	for _, c := range []struct {
		name, send string
		status     int    // of the first answer
		body       string // of it, where it is 200
		more       bool   // next is answered too
	}{
		{"a length", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok", 200, "/a ok", true},
		{"in chunks", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "/a ok", true},
		{"both", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "/a ok", false},
		{"both, the other way round", "POST /a HTTP/1.1\r\nHost: h\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "/a ok", false},
		{"both, behind another request", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nokPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "/a ok", false},
		{"both, in HTTP/1.0", "POST /a HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", 200, "/a ok", false},
		{"two lengths", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok", 400, "", false},
		{"a list of lengths", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2, 3\r\n\r\nok", 400, "", false},
		{"a length with a sign", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: +2\r\n\r\nok", 400, "", false},
		{"a blank before the colon", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length : 2\r\n\r\nok", 400, "", false},
		{"a coding that there is not", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, "", false},
		{"two codings", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501, "", false},
		{"a chunk whose size is none", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 200, "/a ", false},
	} {
		conn := dial(t, s.addr, c.send+next)
		in := bufio.NewReader(conn)
		var answers []string
		first := 0
		for {
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				break
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if answers = append(answers, string(body)); first == 0 {
				first = resp.StatusCode
			}
			if strings.HasPrefix(string(body), "/next") {
				break // it would stay open
			}
		}
		_ = conn.Close()
		if more := len(answers) > 0 && strings.HasPrefix(answers[len(answers)-1], "/next"); first != c.status || more != c.more || c.status == 200 && answers[0] != c.body {
			t.Errorf("%s: the first answer is %d, all are %q; want %d %q, and the next one answered: %v", c.name, first, answers, c.status, c.body, c.more)
		}
	}
}
