package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/queue"
)

// failing holds what is kept of a job's failed tries.
var failing = []promise{
	{"keeps every failed try of a job, across hand-outs and a kill",
		"who looks at a job that does not get through wants to know all that happened", 0, keepsFailures},
	{"hands out a job with its failures, after headers of its own",
		"a dead letter is made of the message, and says what was tried", 0, handsOutFailures},
	{"keeps the newest failures of a job, and the beginning of long causes",
		"a job that comes back for weeks must not grow", 0, boundsFailures},
	{"takes no failures from outside",
		"what a job says of itself would be taken for what happened to it", 0, takesNoFailures},
	{"has no failure where no try was burnt",
		"an open breaker, a limit and a lost worker are not the job's", 0, noFailures},
}

// died holds the same for jobs that are kept after they died.
var died = []promise{
	{"keeps the failure that let a job die",
		"the last try is the one that an operator asks for", 0, keepsLastFailure},
	{"keeps the failures of a job that is retried by hand, and counts its tries anew",
		"it gets all its tries, and nobody forgets that it had others", 0, keepsFailuresOnRetry},
}

// failTry lets a try of a job fail.
func failTry(m *tidemill.Message, k tidemill.Kind, cause string) tidemill.Settlement {
	return tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Again, CountTry: true, Kind: k, Cause: cause}
}

// failed checks the failures of a job, all of the last minute.
func (b *bench) failed(where string, got []queue.Failure, want ...queue.Failure) {
	b.Helper()
	is := slices.Clone(got)
	for i := range is {
		if b.now().Sub(is[i].At).Abs() > time.Minute || is[i].At.Nanosecond()%1e6 != 0 || is[i].At.Location() != time.UTC {
			b.Fatalf("%s: failure %d was at %v; want about %v in whole milliseconds, UTC", where, i, is[i].At, queue.Millis(b.now()))
		}
		is[i].At = time.Time{}
	}
	if !slices.Equal(is, want) {
		b.Fatalf("%s: failures are\n%q, want\n%q", where, is, want)
	}
}

// one takes the only waiting job.
func (b *bench) one(src tidemill.Source) *tidemill.Message {
	b.Helper()
	got := b.take(src, 2)
	if len(got) != 1 {
		b.Fatalf("%d jobs were handed out, want one", len(got))
	}
	return got[0]
}

func keepsFailures(b *bench) {
	src := b.open("q")
	b.add(queue.New, job("a"))
	want := []queue.Failure{{Kind: tidemill.Partner, Cause: "answered 503: try later\x00\n1 2;3"}, {Kind: tidemill.Timeout, Cause: ""}, {Cause: "no kind"}}
	for i, f := range want {
		m := b.one(src)
		b.failed(fmt.Sprint("at try ", i), queue.FailuresOf(m), want[:i]...)
		b.settle(src, failTry(m, f.Kind, f.Cause))
		all := b.listed(queue.Filter{Queue: "q"}, "a")
		b.failed("listed", all[0].Failures, want[:i+1]...)
		if at := all[0].Failures[i].At; !b.same(at, queue.Millis(b.now())) {
			b.Fatalf("the failure was at %v, want %v", at, queue.Millis(b.now()))
		}
		if all[0].Tries != i+1 || all[0].Cause != f.Cause {
			b.Fatalf("job has %d tries and cause %q, want %d and %q", all[0].Tries, all[0].Cause, i+1, f.Cause)
		}
		b.kill()
		src = b.open("q")
	}
	m := b.one(src)
	b.failed("at the last try", queue.FailuresOf(m), want...)
	b.deliver(src, m)
	b.listed(queue.Filter{Queue: "q"})
}

func handsOutFailures(b *bench) {
	src := b.open("q")
	m := job("a")
	m.Header = []tidemill.Field{{Name: []byte("gpc"), Value: []byte("1")}, {Name: []byte("n"), Value: nil}}
	b.add(queue.New, m, job("never failed"))
	got := b.take(src, 2)
	b.want(got, "a", "never failed")
	b.settle(src, failTry(got[0], tidemill.Partner, "answered 503"))
	got = append(got[1:], b.take(src, 2)...)
	b.want(got, "never failed", "a")
	h := got[1].Header
	if len(h) != 3 || string(h[0].Name) != "gpc" || string(h[1].Name) != "n" || string(h[2].Name) != queue.FailuresHeader ||
		!strings.HasSuffix(string(h[2].Value), "Z partner_error answered 503") {
		b.Fatalf("the job has headers %q; want its own, then its failure", h)
	}
	if len(got[0].Header) != 0 {
		b.Fatalf("a job that never failed has headers %q", got[0].Header)
	}
	if is := b.listed(queue.Filter{Queue: "q"}, "a", "never failed"); len(is[0].Header) != 2 || len(is[1].Failures) != 0 {
		b.Fatalf("jobs are listed with headers %q and failures %v", is[0].Header, is[1].Failures)
	}
}

func boundsFailures(b *bench) {
	src := b.open("q")
	b.add(queue.New, job("a"))
	long := strings.Repeat("€", queue.MaxFailure/3+1)
	long = long[:len(long)-len(long)%3]
	var want []queue.Failure
	for i := range queue.MaxFailures + 5 {
		f := queue.Failure{Kind: tidemill.Partner, Cause: fmt.Sprintf("%02d%s", i, long)}
		b.settle(src, failTry(b.receive(src, 1, time.Minute)[0], f.Kind, f.Cause))
		f.Cause = queue.CutCause(f.Cause)
		want = append(want, f)
	}
	want = want[5:]
	if n := len(want[0].Cause); n > queue.MaxFailure || n < queue.MaxFailure-3 {
		b.Fatalf("a long cause is kept with %d bytes", n)
	}
	b.failed("listed", b.listed(queue.Filter{Queue: "q"}, "a")[0].Failures, want...)
	m := b.one(src)
	b.failed("handed out", queue.FailuresOf(m), want...)
	if m.Tries != queue.MaxFailures+5 {
		b.Fatalf("the job has %d tries, want %d", m.Tries, queue.MaxFailures+5)
	}
}

func takesNoFailures(b *bench) {
	src := b.open("q")
	lies := func(id, to string) *tidemill.Message {
		m := job(id)
		said := queue.Failure{At: b.now(), Kind: tidemill.Partner, Cause: "said"}.Append(nil)
		m.To, m.Header = to, []tidemill.Field{{Name: []byte(queue.FailuresHeader), Value: said}, {Name: []byte("n"), Value: []byte("v")}, {Name: []byte(queue.FailuresHeader), Value: said}}
		return m
	}
	b.add(queue.New, lies("a", "q"))
	m := b.one(src)
	end := delivered(m)
	end.Next = []*tidemill.Message{lies("a/r", "r")}
	b.settle(src, end)
	next := b.one(b.open("r"))
	for _, m := range []*tidemill.Message{m, next} {
		if len(m.Header) != 1 || string(m.Get("n")) != "v" {
			b.Fatalf("job %q has headers %q; want those that are its own", m.ID, m.Header)
		}
	}
	b.settle(b.open("r"), failTry(next, tidemill.Timeout, "true"))
	b.failed("after a failure", queue.FailuresOf(b.one(b.open("r"))), queue.Failure{Kind: tidemill.Timeout, Cause: "true"})
}

func noFailures(b *bench) {
	src := b.open("q")
	b.add(queue.New, job("a"))
	m := b.one(src)
	b.settle(src, tidemill.Settlement{ID: "a", Mark: m.Mark, End: tidemill.Again, Kind: tidemill.RateLimit, Cause: "breaker open"})
	m = b.one(src)
	b.settle(src, tidemill.Settlement{ID: "a", Mark: m.Mark, End: tidemill.Left, Cause: "left"})
	b.sleep(2 * lease)
	b.one(src) // and is lost
	b.sleep(2 * lease)
	m = b.one(src)
	b.failed("handed out", queue.FailuresOf(m))
	b.failed("listed", b.listed(queue.Filter{Queue: "q"}, "a")[0].Failures)
	if m.Handed != 4 || m.Tries != 0 {
		b.Fatalf("the job has %d hand-outs and %d tries, want 4 and 0", m.Handed, m.Tries)
	}
}

// dies lets a job fail once, and then die.
func (b *bench) dies(src tidemill.Source) []queue.Failure {
	b.Helper()
	b.settle(src, failTry(b.one(src), tidemill.Timeout, "no answer"))
	end := failTry(b.one(src), tidemill.Partner, "answered 500")
	end.End, end.Fate, end.CountTry = tidemill.Done, tidemill.Dead, false
	b.settle(src, end)
	return []queue.Failure{{Kind: tidemill.Timeout, Cause: "no answer"}, {Kind: tidemill.Partner, Cause: "answered 500"}}
}

func keepsLastFailure(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 10})
	b.add(queue.New, job("a"))
	want := b.dies(src)
	b.add(queue.New, job("b"))
	m := b.one(src)
	b.settle(src, failTry(m, tidemill.Partner, "answered 503"))
	b.deliver(src, b.one(src))
	b.kill()
	b.failed("of the job that died", b.listed(queue.Filter{Queue: "q", State: queue.Failed}, "a")[0].Failures, want...)
	b.failed("of the job that was delivered", b.listed(queue.Filter{Queue: "q", State: queue.Completed}, "b")[0].Failures,
		queue.Failure{Kind: tidemill.Partner, Cause: "answered 503"})
}

func keepsFailuresOnRetry(b *bench) {
	src := b.open("q")
	b.keepBoth(queue.Keep{Count: 10})
	b.add(queue.New, job("a"))
	want := b.dies(src)
	b.did(1)(b.whole().Retry(b.Context(), queue.Filter{Queue: "q"}))
	b.failed("after the retry", b.listed(queue.Filter{Queue: "q"}, "a")[0].Failures, want...)
	b.kill()
	src = b.open("q")
	m := b.one(src)
	b.failed("handed out again", queue.FailuresOf(m), want...)
	if m.Tries != 0 || m.Handed != 1 {
		b.Fatalf("the job has %d tries and %d hand-outs, want none and 1", m.Tries, m.Handed)
	}
	b.settle(src, failTry(m, tidemill.Transient, "again"))
	want = append(want, queue.Failure{Kind: tidemill.Transient, Cause: "again"})
	m = b.one(src)
	b.failed("after another failure", queue.FailuresOf(m), want...)
	b.deliver(src, m)
	b.failed("completed", b.listed(queue.Filter{Queue: "q", State: queue.Completed}, "a")[0].Failures, want...)
}
