package httpsink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
)

// via answers requests in the process.
type via func(*http.Request) (*http.Response, error)

func (v via) RoundTrip(r *http.Request) (*http.Response, error) { return v(r) }

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

func TestRequestsThatGoTogether(t *testing.T) {
	h := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		a, b Request
		want bool
	}{
		{Request{}, Request{}, true}, {Request{ID: "a", Body: []byte("x")}, Request{ID: "b"}, true},
		{Request{Method: "PUT"}, Request{}, false}, {Request{URL: "a"}, Request{URL: "b"}, false},
		{Request{Header: h("A", "1")}, Request{Header: h("A", "1")}, true}, {Request{Header: h("A", "1")}, Request{Header: h("A", "2")}, false},
		{Request{Header: h("A", "1")}, Request{Header: h("B", "1")}, false}, {Request{Header: h("A", "1")}, Request{}, false},
		{Request{}, Request{Header: h("A", "1")}, false}, {Request{Header: h("A", "")}, Request{Header: h("B", "")}, false},
	} {
		if got := alike(&c.a, &c.b); got != c.want {
			t.Errorf("%+v and %+v: %v", c.a, c.b, got)
		}
	}
}

// slowly gives one byte at a time, and its end with the last or after it.
type slowly struct {
	left int
	with bool
}

func (r *slowly) Read(b []byte) (int, error) {
	if r.left == 0 || len(b) == 0 {
		return 0, io.EOF
	}
	r.left--
	b[0] = 'x'
	if r.left == 0 && r.with {
		return 1, io.EOF
	}
	return 1, nil
}

func TestBodiesAreReadUpToTheirBound(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, MaxBody - 1, MaxBody, MaxBody + 1, 2 * MaxBody} {
		for name, from := range map[string]io.Reader{"at once": strings.NewReader(strings.Repeat("x", n)), "byte by byte": &slowly{n, false}, "with its end": &slowly{n, true}} {
			got, err := fill(nil, from)
			if len(got) != min(n, MaxBody) || errors.Is(err, errMore) != (n > MaxBody) || err != nil && !errors.Is(err, errMore) {
				t.Errorf("%d bytes %s: %d read, %v", n, name, len(got), err)
			}
		}
	}
	if got, err := fill(make([]byte, 0, 8), io.MultiReader(strings.NewReader("abc"), brokenReader{})); string(got) != "abc" || err == nil {
		t.Errorf("cut off: %q, %v", got, err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("cut off") }

// Messages go into one request while its body, envelope included, is no longer than it may be.
// Each is counted with what stands between two of them.
func TestHowManyBytesGoTogether(t *testing.T) {
	for limit, want := range map[int]string{11: "[[aa,bb,cc]]", 10: "[[aa,bb] [cc]]", 8: "[[aa,bb] [cc]]", 7: "[[aa] [bb] [cc]]", 1: "[[aa] [bb] [cc]]"} {
		var sent []string
		sink, err := New(via(func(r *http.Request) (*http.Response, error) {
			b, err := io.ReadAll(r.Body)
			sent = append(sent, string(b))
			return answer(200, ""), err
		}), Options{URL: "https://a.example", Batch: Batch{Items: 10, Bytes: limit, Head: []byte("["), Between: []byte(","), Tail: []byte("]")}})
		if err != nil {
			t.Fatal(err)
		}
		var batch []*tidemill.Message
		for _, p := range []string{"aa", "bb", "cc"} {
			batch = append(batch, &tidemill.Message{ID: p, Payload: []byte(p)})
		}
		if err := sink.Write(t.Context(), batch); err != nil || fmt.Sprint(sent) != want {
			t.Errorf("of at most %d bytes: %v, want %s (%v)", limit, sent, want, err)
		}
	}
}

// An encoder that spoils what was encoded before fails its message, and no other.
func TestAnEncoderThatCutsOff(t *testing.T) {
	var sent []string
	sink, err := New(via(func(r *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(r.Body)
		sent = append(sent, string(b))
		return answer(200, ""), err
	}), Options{URL: "https://a.example", Batch: Batch{Items: 10}, Encode: func(m *tidemill.Message, r *Request) error {
		switch m.ID {
		case "cut":
			r.Body = r.Body[:0]
		case "empty":
		default:
			r.Body = append(r.Body, m.ID...)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = sink.Write(t.Context(), []*tidemill.Message{{ID: "a"}, {ID: "cut"}, {ID: "empty"}, {ID: "b"}})
	p, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(p.Failed) != 1 || p.Failed[0].Index != 1 || tidemill.KindOf(p.Failed[0].Err) != tidemill.Validation || fmt.Sprint(sent) != "[ab]" {
		t.Errorf("sent %q: %v", sent, err)
	}
}

// What the documentation of Options says of each zero value.
func TestDefaultsOfASink(t *testing.T) {
	var got *http.Request
	sink, err := New(via(func(r *http.Request) (*http.Response, error) { got = r; return answer(204, ""), nil }), Options{URL: "https://a.example:8443/x?y=z"})
	if err != nil {
		t.Fatal(err)
	}
	o := sink.o
	if o.Name != "a.example" || o.Method != "POST" || o.KeyHeader != "Idempotency-Key" || o.Timeout != 3*time.Second || o.MaxAfter != 15*time.Minute || o.Batch.Items != 1 || o.Batch.Bytes != 1<<20 {
		t.Errorf("%+v", o)
	}
	if err := sink.Write(t.Context(), []*tidemill.Message{{ID: "a", Payload: []byte("body")}}); err != nil {
		t.Fatal(err)
	}
	if got.Header.Get("Content-Type") != "application/json" || got.Header.Get("User-Agent") != "Tidemill" || fmt.Sprint(got.Header[strings.ToLower(o.KeyHeader)]) != "[a]" ||
		got.Method != "POST" || got.URL.String() != "https://a.example:8443/x?y=z" || got.ContentLength != 4 || got.Host != "a.example:8443" {
		t.Errorf("%+v", got)
	}
	token, err := NewToken(TokenOptions{URL: "https://a.example", Grant: ClientCredentials("a", tidemill.NewSecret("secret")), Via: via(nil)})
	if err != nil || token.o.Timeout != 10*time.Second || token.o.Early != time.Minute || token.o.Now == nil {
		t.Errorf("%+v, %v", token, err)
	}
}

func TestNegativeNumbersAreRefused(t *testing.T) {
	for i, o := range []Options{{Timeout: -1}, {MaxAfter: -1}, {Batch: Batch{Items: -1}}, {Batch: Batch{Bytes: -1}}} {
		o.URL = "https://a.example"
		if _, err := New(via(nil), o); err == nil {
			t.Errorf("number %d is taken", i)
		}
	}
	for i, o := range []TokenOptions{{Timeout: -1}, {Early: -1}, {URL: "a"}, {URL: "https://u@a.example"}, {Via: nil, Timeout: 1}} {
		if i < 4 {
			o.Via = via(nil)
		}
		if o.URL == "" {
			o.URL = "https://a.example"
		}
		o.Grant = ClientCredentials("a", tidemill.NewSecret("secret"))
		if _, err := NewToken(o); err == nil {
			t.Errorf("token option %d is taken", i)
		}
	}
}

// A request with no body that net/http would repeat by itself has one that it cannot rewind.
func TestWhatTheClientWouldRepeat(t *testing.T) {
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "POST": false, "PUT": false, "DELETE": false, "PATCH": false} {
		if repeats(method) != want {
			t.Errorf("%s is repeated: %v", method, !want)
		}
		var got *http.Request
		sink, err := New(via(func(r *http.Request) (*http.Response, error) { got = r; return answer(200, ""), nil }), Options{URL: "https://a.example", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Write(t.Context(), []*tidemill.Message{{ID: "a"}}); err != nil {
			t.Fatal(err)
		}
		if got.ContentLength != 0 || (got.Body != nil) != want || got.GetBody != nil {
			t.Errorf("%s: a body of %d bytes: %v", method, got.ContentLength, got.Body)
		}
	}
}

// A message whose key cannot be a header has a hash of it, and one without a key has none.
func TestKeysThatCannotBeSent(t *testing.T) {
	for key, want := range map[string]string{"plain": "[plain]", "": "[]", "a\r\nb": "[" + hash("a\r\nb") + "]"} {
		var got *http.Request
		sink, err := New(via(func(r *http.Request) (*http.Response, error) { got = r; return answer(200, ""), nil }),
			Options{URL: "https://a.example", KeyHeader: "X-Key", Key: func(*tidemill.Message) string { return key }})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Write(t.Context(), []*tidemill.Message{{ID: "a"}}); err != nil {
			t.Fatal(err)
		}
		if s := fmt.Sprint(got.Header["X-Key"]); s != want {
			t.Errorf("key %q is sent as %s, want %s", key, s, want)
		}
	}
}

// What is shown of an answer is its beginning, without a secret that its end cuts.
func TestExcerptsOfAnswers(t *testing.T) {
	sink, err := New(via(nil), Options{URL: "https://a.example", Secrets: []tidemill.Secret{tidemill.NewSecret("canary-secret"), tidemill.NewSecret("abc"), tidemill.NewSecret("abcd"), tidemill.NewSecret("abcdef")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, MaxExcerpt - 1, MaxExcerpt, MaxExcerpt + 1} {
		if got := sink.blot(bytes.Repeat([]byte("x"), n)); len(got) != min(n, MaxExcerpt) || (got == nil) != (n == 0) {
			t.Errorf("of %d bytes %d are shown", n, len(got))
		}
	}
	got := string(sink.blot([]byte(strings.Repeat("x", MaxExcerpt-5) + "canary-secret")))
	if strings.Contains(got, "canary") {
		t.Errorf("the end is %q", got[MaxExcerpt-20:])
	}
	if got := sink.blotText("abc abcd"); !strings.HasPrefix(got, "abc ") || strings.Contains(got, "abcd") {
		t.Errorf("%q: three letters are a word, four a secret", got)
	}
	if got := sink.blotText("abcdef"); strings.Contains(got, "ef") {
		t.Errorf("%q is left of a secret that begins as another does", got)
	}
}

// What is said of a failure where the context ended, or nothing could be signed.
func TestWhatCouldNotBeSigned(t *testing.T) {
	sink, err := New(via(nil), Options{URL: "https://a.example", MaxAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		why   string
		ctx   context.Context
		err   error
		kind  tidemill.Kind
		after time.Duration
	}{
		{"an error of ours", t.Context(), errors.New("no"), tidemill.Internal, 0},
		{"time is up", late, errors.New("no"), tidemill.Timeout, 0},
		{"whoever was asked says", late, &tidemill.Error{Kind: tidemill.Credentials, After: time.Second, Err: errors.New("no")}, tidemill.Credentials, time.Second},
		{"whoever was asked wants much", t.Context(), &tidemill.Error{Kind: tidemill.RateLimit, After: time.Hour, Err: errors.New("no")}, tidemill.RateLimit, time.Minute},
	} {
		e, ok := errors.AsType[*tidemill.Error](sink.unsigned(c.ctx, c.err))
		if !ok || e.Kind != c.kind || e.After != c.after || !strings.Contains(e.Error(), "nothing was sent: ") {
			t.Errorf("%s: %+v", c.why, e)
		}
	}
	if err := sink.unsigned(stopped, errors.New("no")); !errors.Is(err, context.Canceled) || tidemill.KindOf(err) != tidemill.KindOf(context.Canceled) {
		t.Errorf("a stop: %v", err)
	}
}

// What a status means at the edges of the ranges.
func TestWhatAStatusMeans(t *testing.T) {
	for status, want := range map[int]tidemill.Kind{199: tidemill.Partner, 200: tidemill.NoKind, 299: tidemill.NoKind, 300: tidemill.Partner, 399: tidemill.Partner,
		402: tidemill.Partner, 418: tidemill.Partner, 500: tidemill.Partner, 599: tidemill.Partner} {
		if got := KindOf(status); got != want {
			t.Errorf("%d is %v, want %v", status, got, want)
		}
	}
}

// Headers that belong to the connection are not to be set, however they are written.
func TestHeadersOfTheConnection(t *testing.T) {
	for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "Expect"} {
		for _, n := range []string{name, strings.ToLower(name)} {
			if err := checkHeader(n, "5"); err == nil {
				t.Errorf("%s is taken", n)
			}
		}
	}
	if err := checkHeader("X-Trailer", "5"); err != nil {
		t.Error(err)
	}
}

// What an encoder asks for that cannot be sent fails its message, and nothing is sent.
func TestRequestsThatCannotBeSent(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"a URL without a host":       func(r *Request) { r.URL = "/path" },
		"a URL that is none":         func(r *Request) { r.URL = "https://[::1" },
		"a URL with a user":          func(r *Request) { r.URL = "https://u:p@a.example" },
		"a method that is none":      func(r *Request) { r.Method = "BAD METHOD" },
		"a header of the connection": func(r *Request) { r.Header = map[string]string{"Content-Length": "5"} },
		"a header without a name":    func(r *Request) { r.Header = map[string]string{"": "5"} },
	} {
		sink, err := New(via(func(*http.Request) (*http.Response, error) {
			t.Errorf("%s: it was sent", name)
			return answer(200, ""), nil
		}),
			Options{URL: "https://a.example", Encode: func(_ *tidemill.Message, r *Request) error { change(r); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if err := sink.Write(t.Context(), []*tidemill.Message{{ID: "a"}}); tidemill.KindOf(err) != tidemill.Validation {
			t.Errorf("%s: %v", name, err)
		}
	}
}
