package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/access"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/access/tableaccess"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
)

// streamed is an answer that goes on, as somebody reads it.
type streamed struct {
	head http.Header
	body *bufio.Reader
	end  func()
}

// listen asks for a stream in this process, as a viewer.
func listen(t *testing.T, d *desk, ctx context.Context, path string, header ...string) *streamed {
	t.Helper()
	ctx, end := context.WithCancel(caller.With(ctx, caller.Caller{Name: "ada", Rights: caller.All(caller.Viewer)}))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+admin.Prefix+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := operation.Inside(d.api.Inside()).HTTP.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	return &streamed{resp.Header, bufio.NewReader(resp.Body), func() { end(); _ = resp.Body.Close() }}
}

// event is the next one of a stream; comments are passed over.
func (s *streamed) event(t *testing.T) (id, name string, e api.StreamEvent) {
	t.Helper()
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				t.Fatal(err)
			}
			return id, name, e
		}
	}
}

func TestAStreamShowsTopicsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := queues(t)
		stopping, stop := context.WithCancel(t.Context())
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s, Stopping: stopping}})
		defer d.api.Close()
		out := listen(t, d, t.Context(), "stream?topic=overview&topic=queue:q")
		if out.head.Get("Content-Type") != "text/event-stream" || out.head.Get("X-Accel-Buffering") != "no" || out.head.Get("Cache-Control") != "no-store" {
			t.Errorf("head %v", out.head)
		}
		seen := map[string]api.StreamEvent{}
		last := ""
		for range 2 {
			id, name, e := out.event(t)
			seen[name], last = e, id
		}
		if seen["overview"].Overview == nil || seen["queue"].Queue == nil || seen["queue"].Queue.Waiting != 3 || seen["queue"].Topic != "queue:q" {
			t.Errorf("sent %+v", seen)
		}
		if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", ID: "more"}}, nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for {
			if _, _, e := out.event(t); e.Queue != nil && e.Queue.Waiting == 4 {
				break
			}
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it was %v behind", took)
		}
		back := listen(t, d, t.Context(), "stream?topic=queue:q", "Last-Event-ID", last)
		if _, _, e := back.event(t); e.Queue == nil {
			t.Errorf("after a gap it is sent %+v", e)
		}
		back.end()
		stop() // this instance stops
		for {
			if _, err := out.body.ReadString('\n'); err != nil {
				break
			}
		}
		out.end()
	})
}

// A page asks for itself again at each state that is sent: at rest there is none.
func TestWhatStandsStillIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := queues(t)
		letters, err := tabledeadletter.Memory(deadletter.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := letters.Put(t.Context(), []tidemill.DeadLetter{{Pipeline: "q", Kind: tidemill.Partner, Message: &tidemill.Message{ID: "e"}}}); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}, Letters: letters})
		defer d.api.Close()
		out := listen(t, d, t.Context(), "stream?topic=overview&topic=queue:q&topic=dead")
		go func() {
			time.Sleep(3 * time.Minute)
			out.end()
		}()
		sent := map[string]int{}
		for began := time.Now(); ; {
			line, err := out.body.ReadString('\n')
			if err != nil {
				break
			}
			if name, is := strings.CutPrefix(line, "event: "); is && time.Since(began) > 90*time.Second { // rates are those of a minute
				sent[strings.TrimSpace(name)]++
			}
		}
		if len(sent) > 0 {
			t.Errorf("what stood still was sent again: %v", sent)
		}
	})
}

// ends says how long a stream goes on.
func (s *streamed) ends() time.Duration {
	began := time.Now()
	for {
		if _, err := s.body.ReadString('\n'); err != nil {
			return time.Since(began)
		}
	}
}

func TestAStreamEndsWithTheRightsOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := withPeople(t)
		defer d.api.Close()
		d.addUser("ada", "viewer")
		for _, change := range []string{"users/ada/role?role=operator", "users/ada/remove"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+admin.Prefix+"stream?topic=overview", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.AddCookie(d.enter(access.Proof{Name: "ada", Password: phrase}))
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			resp, err := (&http.Client{Transport: &operation.InProcess{Handler: d.api}}).Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", resp, err)
			}
			out := &streamed{body: bufio.NewReader(resp.Body)}
			for beats := 0; beats < 3; { // it goes on as long as nothing changes
				line, err := out.body.ReadString('\n')
				if err != nil {
					t.Fatalf("the stream ended: %v", err)
				}
				if line == ":\n" {
					beats++
				}
			}
			d.post(change, "")
			if took := out.ends(); took > 5*time.Second {
				t.Errorf("%s: it went on for %v", change, took)
			}
		}
		session, end := context.WithCancel(t.Context())
		out := listen(t, d, session, "stream?topic=overview")
		defer out.end()
		out.event(t)
		end()
		if took := out.ends(); took > 0 {
			t.Errorf("its context ended, and it went on for %v", took)
		}
	})
}

// going is a request for a listing that goes on.
type going struct{}

func (going) Live() bool { return true }

// ticked is an item of it.
type ticked struct {
	At time.Time `json:"at"`
}

// A listing that goes on has an item a second, and ends no sooner than somebody ends it.
func TestAListingThatGoesOnEndsWithTheRightsOfItsCaller(t *testing.T) {
	list := operation.List[going, ticked]("listTicks", "ticks", "List ticks.").For(caller.Viewer).By(func(ctx context.Context, _ *going) (iter.Seq2[ticked, error], error) {
		return func(yield func(ticked, error) bool) {
			for yield(ticked{time.Now()}, nil) {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
				}
			}
		}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, admin.Parts{Config: constant(loaded(t)), People: access.Options{Store: tableaccess.Memory(), Cost: access.Cost{KiB: 64, Passes: 1}},
			Rooms: []admin.Room{{Does: []operation.Handler{list}}}})
		defer d.api.Close()
		d.addUser("ada", "operator")
		made := new(api.MadeToken)
		if err := json.Unmarshal([]byte(d.post("tokens?name=ci&role=viewer", "")), made); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ token, change string }{
			{"", "users/ada/role?role=viewer"}, {"", "users/ada/remove"}, {made.Secret, "tokens/" + made.ID + "/revoke"}, {token, ""},
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+admin.Prefix+"ticks", nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Header.Set("Sec-Fetch-Site", "same-origin"); c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			} else {
				r.AddCookie(d.enter(access.Proof{Name: "ada", Password: phrase}))
			}
			resp, err := (&http.Client{Transport: &operation.InProcess{Handler: d.api}}).Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", resp, err)
			}
			out := bufio.NewReader(resp.Body)
			next := func() error { _, err := out.ReadString('\n'); return err }
			for range 30 { // it goes on as long as nothing changes
				if err := next(); err != nil {
					t.Fatalf("before %q it ended: %v", c.change, err)
				}
			}
			if c.change == "" {
				_ = resp.Body.Close()
				continue
			}
			d.post(c.change, "")
			began := time.Now()
			for err = nil; err == nil && time.Since(began) < time.Minute; {
				err = next()
			}
			if took := time.Since(began); took > 5*time.Second || !errors.Is(err, io.EOF) {
				t.Errorf("%s: it went on for %v, and ended with %v", c.change, took, err)
			}
			_ = resp.Body.Close()
		}
	})
}

func TestASilentStreamHasAPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryqueue.New(memoryqueue.Options{})
		if _, err := s.Set(t.Context(), "r", func(q *queue.Settings) { q.Paused = true }); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}})
		defer d.api.Close()
		out := listen(t, d, t.Context(), "stream?topic=queue:r") // which stays as it is
		defer out.end()
		out.event(t)
		began, comments := time.Now(), 0
		for comments < 3 {
			line, err := out.body.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == ":\n" {
				comments++
			}
		}
		if took := time.Since(began); took < 44*time.Second || took > 46*time.Second {
			t.Errorf("three comments in %v", took)
		}
	})
}

// single is a listener of one connection.
type single struct {
	conn   chan net.Conn
	closed chan struct{}
	close  sync.Once
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *single) Close() error   { l.close.Do(func() { close(l.closed) }); return nil }
func (l *single) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// far is an end of a pipe that has an address.
type far struct{ net.Conn }

func (far) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000} }

const asks = "GET " + admin.Prefix + "stream?topic=overview HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n"

func TestAClientThatTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, admin.Parts{})
		defer d.api.Close()
		ended := make(chan time.Time, 1)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.api.ServeHTTP(w, r)
			ended <- time.Now()
		})}
		l := &single{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		client, theirs := net.Pipe()
		l.conn <- far{theirs}
		go func() { _ = server.Serve(l) }()
		began := time.Now()
		if _, err := client.Write([]byte(asks)); err != nil {
			t.Fatal(err)
		}
		if took := (<-ended).Sub(began); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
		_ = client.Close()
		_ = server.Close()
	})
}

func TestWhatIsNoTopicIsRefused(t *testing.T) {
	_, s := queues(t)
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}})
	defer d.api.Close()
	for path, want := range map[string]int{"stream": 400, "stream?topic=": 404, "stream?topic=nix": 404, "stream?topic=queue:nix": 404, "stream?topic=pipeline:nix": 404, "stream?topic=dead": 404, "stream?topc=overview": 400} {
		if w := d.ask(http.MethodGet, path, ""); w.Code != want {
			t.Errorf("%s: answered %d %s", path, w.Code, w.Body)
		}
	}
}

// A client that takes nothing, over TCP, costs nobody else anything.
func TestAClientThatTakesNothingHoldsUpNobody(t *testing.T) {
	_, s := queues(t)
	d := newDesk(t, admin.Parts{Common: &answer.Common{Queues: s}})
	defer d.api.Close()
	server := httptest.NewServer(d.api)
	defer server.Close()
	var slow []net.Conn
	for range 5 { // they ask, and read nothing
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(asks)); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, c)
	}
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+admin.Prefix+"stream?topic=queue:q", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Authorization", "Bearer "+token)
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			out := &streamed{body: bufio.NewReader(resp.Body)}
			for n := 0; ; n++ {
				_, _, e := out.event(t)
				if e.Queue == nil || e.Queue.Waiting >= 5 {
					break
				}
				if i > 0 { // the first one makes what all see
					continue
				}
				if err := s.Add(t.Context(), []*tidemill.Message{{To: "q", ID: fmt.Sprint("more", n)}}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, c := range slow {
		_ = c.Close()
	}
}
