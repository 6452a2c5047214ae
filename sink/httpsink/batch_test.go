package httpsink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/delivery/partner/partnertest"
)

// list is a partner that takes lists of {"id"} and refuses one that holds a bad id.
type list struct {
	mu   sync.Mutex
	got  [][]string
	keys []string
}

func (l *list) serve(w http.ResponseWriter, r *http.Request) {
	var in []struct{ ID string }
	b, _ := io.ReadAll(r.Body)
	if json.Unmarshal(b, &in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var ids []string
	for _, e := range in {
		if strings.HasPrefix(e.ID, "bad") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		ids = append(ids, e.ID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, ids)
	l.keys = append(l.keys, r.Header.Get("Idempotency-Key"))
}

func listed(items, bytes int) httpsink.Options {
	return httpsink.Options{Batch: httpsink.Batch{Items: items, Bytes: bytes, Head: []byte("["), Between: []byte(","), Tail: []byte("]")}}
}

func messages(ids ...string) (all []*tidemill.Message) {
	for _, id := range ids {
		all = append(all, message(id))
	}
	return all
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name string
		o    httpsink.Options
		ids  []string
		want string
	}{
		{"by number", listed(2, 0), []string{"a", "b", "c", "d", "e"}, "[[a b] [c d] [e]]"},
		{"by bytes, the envelope included", listed(100, 25), []string{"a", "b", "c"}, "[[a b] [c]]"},
		{"one that is too large goes alone", listed(100, 5), []string{"a", "b"}, "[[a] [b]]"},
		{"a bad one is found, its neighbours are delivered", listed(100, 0), []string{"a", "b", "c", "bad", "d"}, "[[a b] [c] [d]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &list{}
			server := partnertest.New(t, l.serve)
			sink := open(t, server, c.o)
			err := sink.Write(t.Context(), messages(c.ids...))
			if got := fmt.Sprint(l.got); got != c.want {
				t.Errorf("requests %s, want %s", got, c.want)
			}
			bad := slices.Index(c.ids, "bad")
			if bad < 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			p, ok := errors.AsType[*tidemill.Partial](err)
			if !ok || len(p.Failed) != 1 || p.Failed[0].Index != bad || tidemill.KindOf(p.Failed[0].Err) != tidemill.Validation {
				t.Errorf("Write returned %v", err)
			}
		})
	}
}

func TestKeysOfBatches(t *testing.T) {
	l := &list{}
	sink := open(t, partnertest.New(t, l.serve), listed(10, 0))
	for _, ids := range [][]string{{"a", "b"}, {"a", "b"}, {"a", "c"}, {"ab", ""}, {"a"}} {
		if err := sink.Write(t.Context(), messages(ids...)); err != nil {
			t.Fatal(err)
		}
	}
	k := l.keys
	if k[0] != k[1] || k[0] == k[2] || k[0] == k[3] || k[4] != "a" || len(k[0]) != 32 {
		t.Errorf("keys %q", k)
	}
}

// A destination in trouble is not asked for each message of a batch, and no message
// overtakes one that failed.
func TestTheRestIsNotSent(t *testing.T) {
	for _, c := range []struct {
		step       partnertest.Step
		kind, rest tidemill.Kind
	}{
		{partnertest.RetryAfter(429, "7"), tidemill.RateLimit, tidemill.RateLimit},
		{partnertest.Status(503, ""), tidemill.Partner, tidemill.Partner},
		{partnertest.Status(401, ""), tidemill.Credentials, tidemill.Credentials},
		{partnertest.LoseAnswer(), tidemill.Unknown, tidemill.Partner},
	} {
		l := &list{}
		server := partnertest.New(t, l.serve)
		server.Script(partnertest.Pass(), c.step)
		sink := open(t, server, listed(1, 0))
		err := sink.Write(t.Context(), messages("a", "b", "c", "d"))
		p, ok := errors.AsType[*tidemill.Partial](err)
		if !ok || len(p.Failed) != 3 {
			t.Fatalf("%v: %v", c.kind, err)
		}
		for i, f := range p.Failed {
			want := c.rest
			if i == 0 {
				want = c.kind
			}
			e, _ := errors.AsType[*tidemill.Error](f.Err)
			if f.Index != i+1 || e.Kind != want || want == tidemill.RateLimit && e.After.Seconds() != 7 {
				t.Errorf("%v: message %d is %v (%v)", c.kind, f.Index, e.Kind, f.Err)
			}
		}
		if n := len(server.Requests()); n != 2 {
			t.Errorf("%v: %d requests", c.kind, n)
		}
	}
}

// Of a batch that is sent again in halves the second is not sent where the first meets trouble.
func TestTheOtherHalfIsNotSent(t *testing.T) {
	l := &list{}
	server := partnertest.New(t, l.serve)
	server.Script(partnertest.Status(422, ""), partnertest.Status(503, ""))
	err := open(t, server, listed(10, 0)).Write(t.Context(), messages("a", "b"))
	p, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(p.Failed) != 2 || tidemill.KindOf(p.Failed[0].Err) != tidemill.Partner || tidemill.KindOf(p.Failed[1].Err) != tidemill.Partner {
		t.Errorf("Write returned %v", err)
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("%d requests, want the batch and its first half", n)
	}
}

func TestMessagesWithTheirOwnRequest(t *testing.T) {
	server := partnertest.New(t, ok)
	o := listed(10, 0)
	o.Encode = func(m *tidemill.Message, r *httpsink.Request) error {
		switch m.ID {
		case "refused":
			return errors.New("no")
		case "hostile":
			r.Header = map[string]string{"X-Site": "a\r\nAuthorization: b"}
		case "elsewhere":
			r.URL, r.Method = server.URL+"/other", http.MethodPut
		case "bad":
			r.URL = "https://user:pw@example.com"
		default:
			r.Header = map[string]string{"X-Site": m.ID[:1]}
		}
		r.Body = append(r.Body, m.Payload...)
		return nil
	}
	sink := open(t, server, o)
	err := sink.Write(t.Context(), messages("a1", "a2", "b1", "refused", "hostile", "elsewhere", "bad", "b2"))
	p, ok := errors.AsType[*tidemill.Partial](err)
	if !ok || len(p.Failed) != 3 {
		t.Fatal(err)
	}
	for i, index := range []int{3, 4, 6} {
		if p.Failed[i].Index != index || tidemill.KindOf(p.Failed[i].Err) != tidemill.Validation {
			t.Errorf("failed: %+v", p.Failed[i])
		}
	}
	var got []string
	for _, r := range server.Requests() {
		got = append(got, fmt.Sprint(r.Method, r.Path, r.Header.Get("X-Site"), string(r.Body)))
	}
	want := []string{`POST/v1/eventsa[{"id":"a1"},{"id":"a2"}]`, `POST/v1/eventsb[{"id":"b1"}]`, `PUT/other[{"id":"elsewhere"}]`, `POST/v1/eventsb[{"id":"b2"}]`}
	if !slices.Equal(got, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestItemsOfAnAnswer(t *testing.T) {
	answers := map[string]func(*httpsink.Answer, []string) ([]httpsink.Verdict, error){
		"some failed": func(_ *httpsink.Answer, ids []string) ([]httpsink.Verdict, error) {
			v := make([]httpsink.Verdict, len(ids))
			v[1] = httpsink.Verdict{Kind: tidemill.Validation, Why: "refused"}
			v[2] = httpsink.Verdict{Kind: tidemill.Unknown}
			return v, nil
		},
		"cannot be read": func(*httpsink.Answer, []string) ([]httpsink.Verdict, error) { return nil, errors.New("no list") },
		"too few":        func(*httpsink.Answer, []string) ([]httpsink.Verdict, error) { return make([]httpsink.Verdict, 2), nil },
	}
	for name, want := range map[string][2]string{
		"some failed":    {"[1:validation 2:unknown]", "[1:validation 2:partner_error]"},
		"cannot be read": {"[0:unknown 1:unknown 2:unknown]", "[0:partner_error 1:partner_error 2:partner_error]"},
		"too few":        {"[0:unknown 1:unknown 2:unknown]", "[0:partner_error 1:partner_error 2:partner_error]"},
	} {
		for i, idempotent := range []bool{false, true} {
			server := partnertest.New(t, ok)
			o := listed(10, 0)
			o.Items, o.Idempotent = answers[name], idempotent
			var seen []string
			o.Observe = func(_ context.Context, batch []*tidemill.Message, a httpsink.Attempt) {
				seen = append(seen, fmt.Sprint(len(batch), a.Err != nil))
			}
			err := open(t, server, o).Write(t.Context(), messages("a", "b", "c"))
			p, ok := errors.AsType[*tidemill.Partial](err)
			if !ok {
				t.Fatal(err)
			}
			var got []string
			for _, f := range p.Failed {
				got = append(got, fmt.Sprintf("%d:%v", f.Index, tidemill.KindOf(f.Err)))
			}
			if fmt.Sprint(got) != want[i] || len(server.Requests()) != 1 || fmt.Sprint(seen) != "[3 true]" {
				t.Errorf("%s, idempotent %v: %v, want %v; %d requests, observed %v", name, idempotent, got, want[i], len(server.Requests()), seen)
			}
		}
	}
	var asked []string
	o := listed(2, 0)
	o.Items = func(_ *httpsink.Answer, ids []string) ([]httpsink.Verdict, error) {
		asked = append(asked, fmt.Sprint(ids))
		return make([]httpsink.Verdict, len(ids)), nil
	}
	o.Observe = func(_ context.Context, batch []*tidemill.Message, _ httpsink.Attempt) {
		if len(batch) != 2-len(asked)/2 {
			t.Errorf("observed %d messages of request %d", len(batch), len(asked))
		}
	}
	if err := open(t, partnertest.New(t, ok), o).Write(t.Context(), messages("a", "b", "c")); err != nil || fmt.Sprint(asked) != "[[a b] [c]]" {
		t.Errorf("asked of %v, want each request of its own (%v)", asked, err)
	}
	server := partnertest.New(t, ok)
	server.Script(partnertest.ResetInBody())
	o = listed(10, 0)
	o.Items = answers["some failed"]
	err := open(t, server, o).Write(t.Context(), messages("a"))
	kindOf(t, err, tidemill.Unknown) // results that broke off say nothing
}
