package operation

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/internal/sleep"
)

// Client asks the API of an instance.
type Client struct {
	HTTP  *http.Client // it follows no redirect: the API sends none, and the token is for nobody else
	Base  string       // http://127.0.0.1:8484
	Token string
	Key   string // the Idempotency-Key of changes; empty: none. See Once

	// Patience is how long a request goes on in all, which the instance answers to be one too many of its
	// caller: it is sent again when the instance says. 0: it is not, and that is its answer.
	Patience time.Duration
}

// Once is the client for one change, which is made once for its Idempotency-Key.
func (c *Client) Once(key string) *Client {
	one := *c
	one.Key = key
	return &one
}

// ErrStranger says that something else than an instance answered.
var ErrStranger = errors.New("is it a Tidemill instance?")

// Call asks for one answer. A *Problem is why the instance did not do it.
func (o Operation[Q, A]) Call(ctx context.Context, c *Client, q *Q) (a A, err error) {
	err = o.call(ctx, c, q, &a)
	return a, err
}

// Raw asks for one answer, as it came.
func (o Operation[Q, A]) Raw(ctx context.Context, c *Client, q *Q) (raw json.RawMessage, err error) {
	err = o.call(ctx, c, q, &raw)
	return raw, err
}

// Body asks for a Document, which the caller closes.
func (o Operation[Q, A]) Body(ctx context.Context, c *Client, q *Q) (io.ReadCloser, error) {
	return o.ask(ctx, c, q, "")
}

// call asks for an answer that is one JSON object.
func (d *Description) call(ctx context.Context, c *Client, q, into any) error {
	body, err := d.ask(ctx, c, q, "application/json")
	if err != nil {
		return err
	}
	defer body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(body).Decode(&raw); err != nil {
		return fmt.Errorf("the answer of %s was cut off: %w", c.Base, err)
	}
	return json.Unmarshal(raw, into)
}

// Each asks for a listing. Its last error is a *Rest where it ends early.
func (l Listing[Q, A]) Each(ctx context.Context, c *Client, q *Q) iter.Seq2[*A, error] {
	return func(yield func(*A, error) bool) {
		for line, err := range l.Raw(ctx, c, q) {
			a := new(A)
			if err == nil {
				err = json.Unmarshal(line, a)
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// Page asks for a page of a listing.
func (l Listing[Q, A]) Page(ctx context.Context, c *Client, q *Q) (p Paged[A], err error) {
	err = l.call(ctx, c, q, &p)
	return p, err
}

// Raw asks for a listing, its lines as they came.
func (l Listing[Q, A]) Raw(ctx context.Context, c *Client, q *Q) iter.Seq2[[]byte, error] {
	return l.each(ctx, c, q)
}

// each asks for a listing, its lines as they came.
func (d *Description) each(ctx context.Context, c *Client, q any) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { eachLine(ctx, d, c, q, yield) }
}

// eachLine yields the lines of a listing; there is one of it for all types.
func eachLine(ctx context.Context, d *Description, c *Client, q any, yield func([]byte, error) bool) {
	body, err := d.ask(ctx, c, q, LinesType)
	if err != nil {
		yield(nil, err)
		return
	}
	defer body.Close()
	live, ok := q.(Live)
	whole := ok && live.Live()
	items, looked := 0, 0
	in := bufio.NewReaderSize(body, 256<<10)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case isEnd(line):
			var end ListingEnd
			if wrong := json.Unmarshal(line, &end); wrong == nil && end.Problem != nil {
				err = end.Problem
			}
			whole = whole || end.Whole != nil && end.Whole.Items == items
			if end.Whole != nil {
				looked = end.Whole.Looked
			}
		case len(line) > 0 && (err == nil || errors.Is(err, io.EOF)):
			if items++; !yield(line, nil) {
				return
			}
		}
		if errors.Is(err, io.EOF) && whole {
			if looked > 0 {
				yield(nil, &Rest{Looked: looked})
			}
			return
		}
		if errors.Is(err, io.EOF) {
			err = errNotWhole
		}
		if err != nil {
			yield(nil, fmt.Errorf("the listing was cut off: %w", err))
			return
		}
	}
}

// Print asks for what an operation answers, of whatever type, and writes it as it comes: a listing without its last
// line, which has to say that it is whole. q is a pointer to its request.
func Print(ctx context.Context, d *Description, c *Client, q any, to io.Writer) error {
	if in, ok := q.(paged); d.Lines && !(ok && in.page().asked()) {
		for line, err := range d.each(ctx, c, q) {
			if err == nil {
				_, err = to.Write(line)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	body, err := d.ask(ctx, c, q, "")
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(to, body)
	return err
}

// errNotWhole says why a listing is taken for one that was cut off.
var errNotWhole = errors.New("its last line does not say that it is whole")

// ask sends a request, and returns the body of an answer that is none of a problem, of the type
// that is wanted, if any is.
func (d *Description) ask(ctx context.Context, c *Client, q any, want string) (io.ReadCloser, error) {
	resp, err := d.sent(ctx, c, q, want)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode/100 == 2 && (kind == want || want == "") {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil, fmt.Errorf("%s answered with %s: %w", c.Base, cmp.Or(resp.Header.Get("Content-Type"), "no type"), ErrStranger)
	}
	said := new(Problem)
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if json.Unmarshal(text, said) == nil && said.Detail != "" {
		return nil, said
	}
	return nil, fmt.Errorf("%s answered %s: %w", c.Base, resp.Status, ErrStranger)
}

// sent is the answer to a request, which is sent again as long as it is one too many and the client has patience.
func (d *Description) sent(ctx context.Context, c *Client, q any, want string) (*http.Response, error) {
	for until := time.Now().Add(c.Patience); ; {
		resp, err := d.send(ctx, c, q, want)
		if err != nil {
			return nil, err
		}
		wait := tooMany(resp)
		if wait == 0 || time.Now().Add(wait).After(until) || d.streamed() {
			return resp, nil
		}
		_ = resp.Body.Close()
		if err := sleep.For(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// tooMany is how long to wait after an answer that says by its limits that a request was one too many; 0: it says
// something else.
func tooMany(resp *http.Response) time.Duration {
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("RateLimit") == "" || err != nil || s < 0 {
		return 0
	}
	return time.Duration(min(max(s, 1), 3600)) * time.Second
}

// streamed says whether the body of requests is read once only.
func (d *Description) streamed() bool {
	p := d.Body()
	return p != nil && p.Field.Type.Kind() == reflect.Interface
}

func (d *Description) send(ctx context.Context, c *Client, q any, want string) (*http.Response, error) {
	req, err := d.request(ctx, c.Base, reflect.ValueOf(q).Elem())
	if err != nil {
		return nil, err
	}
	if want != "" {
		req.Header.Set("Accept", want)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Key != "" && d.Method != http.MethodGet {
		req.Header.Set(IdempotencyKey, c.Key)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, fmt.Errorf("ask %s: %w", c.Base, err)
	}
	return resp, nil
}

// URL is the path and the query of a request.
func (d *Description) URL(q any) (string, error) {
	req, err := d.request(context.Background(), "", reflect.ValueOf(q).Elem())
	if err != nil {
		return "", err
	}
	return req.URL.String(), nil
}

// request is the request in HTTP.
func (d *Description) request(ctx context.Context, base string, q reflect.Value) (*http.Request, error) {
	path, query := d.Path, d.Query(q.Addr().Interface())
	var body io.Reader
	kind, headers := "", http.Header{}
	for _, p := range d.Params {
		f := q.FieldByIndex(p.Field.Index)
		switch p.In {
		case InPath:
			path = strings.Replace(path, "{"+p.Name+"}", segment(f.String()), 1)
		case InHeader:
			switch text := strings.Trim(f.String(), `"`); text {
			case "":
			case Whatever:
				headers.Set(p.Name, text)
			default:
				headers.Set(p.Name, quoted(text))
			}
		case InBody:
			kind = p.Name
			switch {
			case f.Kind() == reflect.Interface:
				body, _ = f.Interface().(io.Reader)
			case f.Kind() == reflect.Slice:
				body = bytes.NewReader(f.Bytes())
			default:
				b, err := json.Marshal(f.Interface())
				if err != nil {
					return nil, err
				}
				body = bytes.NewReader(b)
			}
		}
	}
	u := base + Prefix + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, d.Method, u, body)
	if err != nil {
		return nil, err
	}
	if req.Header = headers; kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	return req, nil
}

// From is a request for an operation with those parameters of another request that it has: for what is
// edited, with the parameters of the edit.
func From(d *Description, r *http.Request) *http.Request {
	path, query := d.Path, url.Values{}
	given, _ := url.ParseQuery(r.URL.RawQuery) // it was read
	for _, p := range d.Params {
		switch p.In {
		case InPath:
			path = strings.Replace(path, "{"+p.Name+"}", segment(r.PathValue(p.Name)), 1)
		case InQuery:
			if texts := given[p.Name]; len(texts) > 0 {
				query[p.Name] = texts
			}
		}
	}
	req := r.Clone(r.Context())
	req.Method, req.Header, req.Body, req.ContentLength, req.RequestURI = d.Method, http.Header{}, http.NoBody, 0, ""
	req.URL, _ = url.Parse(Prefix + path + "?" + query.Encode()) // it is escaped
	return req
}

// Query are the parameters of a request beside its path, as a URL has them; q points to it.
func (d *Description) Query(q any) url.Values {
	query, in := url.Values{}, reflect.ValueOf(q).Elem()
	for _, p := range d.Params {
		if p.In != InQuery {
			continue
		}
		if texts := textsOf(in.FieldByIndex(p.Field.Index)); len(texts) > 0 {
			query[p.Name] = texts
		}
	}
	return query
}

// segment is a part of a path: one of dots alone would be taken for a way up.
func segment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

// textsOf is a parameter in texts; none: it is not asked for.
func textsOf(f reflect.Value) (texts []string) {
	if f.IsZero() {
		return nil
	}
	switch v := f.Interface().(type) {
	case []string:
		return v
	case *string:
		return []string{*v}
	case []int64:
		for _, n := range v {
			texts = append(texts, strconv.FormatInt(n, 10))
		}
		return texts
	}
	return []string{fmt.Sprint(f.Interface())}
}
