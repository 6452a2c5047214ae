//go:build servers

package attack

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// canaries are secrets that nothing may show, each with the place that it is planted in.
type canaries struct {
	t testing.TB

	mu     sync.Mutex
	places map[string]string // by canary
}

// plant makes a secret for a place. It is hard to guess, and a word of a URL as it is.
func (c *canaries) plant(place string) string {
	secret := "canary7" + strings.ToLower(rand.Text())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.places == nil {
		c.places = map[string]string{}
	}
	c.places[secret] = place
	return secret
}

// in names the places whose canaries a text has: as they are, in hex, or in base64, as Basic has
// them.
func (c *canaries) in(text []byte) (places []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for secret, place := range c.places {
		shapes := []string{secret, hex.EncodeToString([]byte(secret))}
		for before, cut := range []int{0, 2, 3} { // of the first characters, which hold bits of what stands before
			coded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			shapes = append(shapes, coded[cut:(before+len(secret))*4/3])
		}
		for _, shape := range shapes {
			if bytes.Contains(text, []byte(shape)) {
				places = append(places, place)
				break
			}
		}
	}
	return places
}

// hidden fails the test where a text shows a canary.
func (c *canaries) hidden(where string, text []byte) {
	c.t.Helper()
	for _, place := range c.in(text) {
		c.t.Errorf("%s shows the secret of %s:\n%.2000s", where, place, text)
	}
}

// hiddenIn looks into all files of a folder: the database, its log, the files of the log.
func (c *canaries) hiddenIn(folder string) {
	c.t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, place := range c.in(text) {
			c.t.Errorf("the file %s has the secret of %s", e.Name(), place)
		}
		files++
		return err
	})
	if err != nil || files == 0 {
		c.t.Errorf("%d files in %s: %v", files, folder, err)
	}
}

// parrot is a server that refuses everything, and repeats what it was sent: by HTTP, as a Redis,
// as a PostgreSQL. What else comes is closed.
type parrot struct {
	addr string

	mu    sync.Mutex
	heard bytes.Buffer
	asked int
}

func newParrot(t testing.TB) *parrot {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &parrot{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *parrot) hear(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard.Write(append(text, '\n'))
	p.asked++
}

// said is all that it was sent, and in how many requests.
func (p *parrot) said() ([]byte, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.heard.Bytes()), p.asked
}

func (p *parrot) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	first, err := r.Peek(1)
	switch {
	case err != nil:
	case first[0] == '*':
		p.redis(c, r)
	case first[0] == 0:
		p.postgres(c, r)
	case 'A' <= first[0] && first[0] <= 'Z':
		p.http(c, r)
	default:
		text, _ := r.Peek(r.Buffered())
		p.hear(text)
	}
}

func (p *parrot) http(c net.Conn, r *bufio.Reader) {
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(q.Body)
		var head bytes.Buffer
		_ = q.Header.Write(&head)
		text := fmt.Appendf(nil, "%s %s\n%s\n%s", q.Method, q.RequestURI, head.Bytes(), body)
		p.hear(text)
		status, answer := "401 Unauthorized", text
		if strings.HasPrefix(q.URL.Path, "/to/") { // a receiver for which it is a bad request
			status = "400 Bad Request"
		}
		if token := q.URL.Query().Get("gives"); token != "" { // an OAuth server that knows us
			status, answer = "200 OK", fmt.Appendf(nil, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
		}
		if issuer, yes := strings.CutSuffix(q.URL.Path, "/.well-known/openid-configuration"); yes { // a provider of OpenID Connect
			at := "http://" + p.addr + issuer
			status, answer = "200 OK", fmt.Appendf(nil, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, at, at+"/in", at+"/token", at+"/keys")
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(answer), answer)
	}
}

func (p *parrot) redis(c net.Conn, r *bufio.Reader) {
	for {
		if _, err := r.Peek(1); err != nil {
			return
		}
		text := make([]byte, r.Buffered())
		_, _ = io.ReadFull(r, text)
		p.hear(text)
		for range bytes.Count(text, []byte("*")) {
			_, _ = fmt.Fprintf(c, "-WRONGPASS of %s\r\n", strings.Join(strings.Fields(string(text)), " "))
		}
	}
}

func (p *parrot) postgres(c net.Conn, r *bufio.Reader) {
	packet := func(head int) []byte {
		b := make([]byte, head+4)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil
		}
		rest := make([]byte, max(0, min(int(binary.BigEndian.Uint32(b[head:]))-4, 1<<16)))
		_, _ = io.ReadFull(r, rest)
		return rest
	}
	start := packet(0)
	if len(start) == 4 { // it asks for TLS
		_, _ = c.Write([]byte("N"))
		start = packet(0)
	}
	p.hear(start)
	_, _ = c.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}) // the password, in the clear
	password := packet(1)
	p.hear(password)
	said := append([]byte("SFATAL\x00C28P01\x00Mthe password is wrong: "), password...)
	said = append(said, "\x00"...)
	_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(said)+4)), said...))
}
