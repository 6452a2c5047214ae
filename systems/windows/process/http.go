package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/sleep"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// HTTP asks a service about records, several in one request: for values to add (a sentiment, a
// translation), or for a decision by code that runs elsewhere. A request and its answer:
//
//	POST {"batch":"20250323151500","records":[{"index":0,"kind":"mention","record":{"globalEventId":7,…}},…]}
//	200  {"records":[{"index":0,"set":{"sentiment":0.7}},{"index":1,"skip":"spam"},{"index":2,"dead":"no text"}]}
//
// set gives values: it replaces those of the record's own names, and adds others. A record that
// the answer does not name goes on as it is; records may be empty, but not missing. An answer
// that does not fit the request is a failure of all its records.
//
// A request that fails is tried again as Retry says. A service that keeps failing is left alone
// for a while as Breaker says: then every page fails at once, and the step's OnError decides.
type HTTP struct {
	ID     string                     // the processor's name; empty: the URL's host
	URL    string                     //
	Header map[string]tidemill.Secret // of every request: our credentials

	Fields []string // names of values that are sent; none: all. globalEventId is always sent

	Items    int           // most records in a request; 0: 100
	Bytes    int           // most bytes of a request; 0: 1 MiB. A larger record is a failure
	Answer   int64         // most bytes of an answer; 0: 4 MiB
	Parallel int           // requests at once for a page; 0: 1
	Timeout  time.Duration // for a request with its answer; 0: 10s
	Retry    policy.Retry  // of a request; zero: it is not tried again
	Breaker  policy.Breaker

	Now  func() time.Time // nil: time.Now
	Rand func() float64   // of [0, 1); nil: math/rand
}

// maxParallel is how many requests may run at once for one page.
const maxParallel = 64

// New makes the processor. Only targets that guard allows are asked.
func (h HTTP) New(guard *httpguard.Guard) (Processor, error) {
	if guard == nil {
		return nil, errors.New("http processor: a guard is needed")
	}
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("http processor: the URL of a service is needed")
	}
	if err := guard.CheckURL(u); err != nil {
		return nil, fmt.Errorf("http processor: %w", err)
	}
	if h.Items < 0 || h.Parallel < 0 || h.Parallel > maxParallel || h.Bytes < 0 || h.Answer < 0 || h.Timeout < 0 || h.Retry.Tries < 0 {
		return nil, errors.New("http processor: a number below zero, more than 64 requests at once, or it is tried again for ever")
	}
	if err := errors.Join(h.Breaker.Check(), h.Retry.Check()); err != nil {
		return nil, fmt.Errorf("http processor: %w", err)
	}
	def(&h.ID, u.Hostname())
	def(&h.Items, 100)
	def(&h.Bytes, 1<<20)
	def(&h.Answer, 4<<20)
	def(&h.Parallel, 1)
	def(&h.Timeout, 10*time.Second)
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.Rand == nil {
		h.Rand = rand.Float64
	}
	p := &service{HTTP: h, via: guard, circuit: h.Breaker.Circuit()}
	for _, name := range h.Fields {
		known := false
		for _, k := range []record.Kind{record.Event, record.Mention} {
			f, ok := k.Lookup(name)
			if known = known || ok; ok && f != record.GlobalEventID {
				p.fields[k] = append(p.fields[k], f)
			}
		}
		if !known {
			return nil, fmt.Errorf("http processor: %s: no value is called so", name)
		}
	}
	return p, nil
}

func def[T comparable](v *T, usual T) {
	var zero T
	if *v == zero {
		*v = usual
	}
}

// service is the processor: one circuit for all batches.
type service struct {
	HTTP
	via    http.RoundTripper
	fields [record.Mention + 1][]record.Field // by kind; the id alone if a kind has none of the given Fields

	mu      sync.Mutex // guards circuit
	circuit *policy.Circuit
}

func (s *service) Name() string { return s.ID }

func (s *service) Begin(batch string) Worker {
	return workerFunc(func(ctx context.Context, items []*Item) error { return s.page(ctx, batch, items) })
}

// page sends the items in as many requests as needed. Its error names the items of failed
// requests.
func (s *service) page(ctx context.Context, batch string, items []*Item) error {
	errs := make([]error, len(items))
	var asking sync.WaitGroup
	turn := make(chan struct{}, s.Parallel)
	for from := 0; from < len(items) && ctx.Err() == nil; {
		body, to := s.request(nil, batch, items, from) // net/http may read it after the answer
		if to == from {
			errs[from] = tidemill.Fail(tidemill.Validation, "the record has more than %d bytes, which is what a request may have", s.Bytes)
			from++
			continue
		}
		first := from
		from = to
		turn <- struct{}{}
		asking.Go(func() {
			defer func() { <-turn }()
			if err := s.ask(ctx, body, items[first:to]); err != nil {
				for i := first; i < to; i++ {
					errs[i] = err
				}
			}
		})
	}
	asking.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []tidemill.Failed
	for i, err := range errs {
		if err != nil {
			failed = append(failed, tidemill.Failed{Index: i, Err: err})
		}
	}
	if failed == nil {
		return nil
	}
	return &tidemill.Partial{Failed: failed}
}

// ErrAlone is why a processor failed at records without sending them, because its service
// failed too often. It does not count as a try of the window.
var ErrAlone = errors.New("the service failed too often and is left alone for a while")

// ask sends one request until it is answered or given up, and applies the answer.
func (s *service) ask(ctx context.Context, body []byte, items []*Item) error {
	for failed := 0; ; failed++ {
		pass, ok := s.enter()
		if !ok {
			_, until := s.State()
			return &tidemill.Error{Kind: tidemill.Transient, After: max(0, until.Sub(s.Now())), Err: ErrAlone}
		}
		answers, err := s.once(ctx, body, len(items))
		s.leave(ctx, pass, err)
		if err == nil {
			return apply(items, answers)
		}
		if ctx.Err() != nil {
			return err
		}
		wait, again := s.Retry.Next(failed, s.Rand())
		switch tidemill.KindOf(err) {
		case tidemill.Validation, tidemill.Credentials:
			again = false // it would be refused again
		}
		if !again {
			return err
		}
		if sleep.For(ctx, wait) != nil {
			return err
		}
	}
}

func (s *service) enter() (policy.Pass, bool) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	pass, _ := s.circuit.Enter(now, 1)
	return pass, pass.N > 0
}

// leave tells the circuit how a request went. A refusal of the request says nothing about the
// service; nor does the end of ctx.
func (s *service) leave(ctx context.Context, pass policy.Pass, err error) {
	good, bad := 1, 0
	switch {
	case ctx.Err() != nil:
		good = 0
	case err != nil && tidemill.KindOf(err) != tidemill.Validation:
		good, bad = 0, 1
	}
	now, random := s.Now(), s.Rand()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.circuit.Leave(now, pass, good, bad, random)
}

// State says how the service stands, and until when it is left alone.
func (s *service) State() (policy.State, time.Time) {
	now := s.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.circuit.State(now)
}

// once sends one request and reads its answer.
func (s *service) once(ctx context.Context, body []byte, n int) ([]answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	r, err := s.build(ctx, body)
	if err != nil {
		return nil, err
	}
	got, err := s.via.RoundTrip(r)
	if err != nil {
		return nil, lost(err)
	}
	defer func() { _ = got.Body.Close() }()
	if got.StatusCode != http.StatusOK {
		return nil, tidemill.Fail(kindOf(got.StatusCode), "it answered %d %s", got.StatusCode, http.StatusText(got.StatusCode))
	}
	whole, err := io.ReadAll(io.LimitReader(got.Body, s.Answer+1))
	switch {
	case err != nil:
		return nil, lost(err)
	case int64(len(whole)) > s.Answer:
		return nil, tidemill.Fail(tidemill.Partner, "its answer has more than %d bytes", s.Answer)
	}
	return parse(whole, n)
}

// lost is the error of a request without an answer. The request may be repeated.
func lost(err error) error {
	if e, ok := errors.AsType[*tidemill.Error](err); ok {
		return e // a forbidden target
	}
	kind := tidemill.Partner
	if errors.Is(err, context.DeadlineExceeded) {
		kind = tidemill.Timeout
	}
	return tidemill.Fail(kind, "no answer: %w", err)
}

// kindOf is what a status means.
func kindOf(status int) tidemill.Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return tidemill.RateLimit
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return tidemill.Credentials
	case status == http.StatusRequestTimeout:
		return tidemill.Timeout
	case status >= 400 && status < 500:
		return tidemill.Validation
	}
	return tidemill.Partner
}
