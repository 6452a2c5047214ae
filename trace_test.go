package tidemill

import (
	"context"
	"strings"
	"testing"
)

const aTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceparent(t *testing.T) {
	for said, want := range map[string]string{
		aTrace: aTrace,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03":      aTrace, // other flags are not ours to pass on
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": aTrace,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": "",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":      "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":      "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":      "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0":       "",
		"": "",
	} {
		got, ok := ParseTrace(said, "a=1")
		if ok != (want != "") || ok && (got.String() != want || got.State != "a=1") {
			t.Errorf("%q is %v, %q with %q; want %q", said, ok, got.String(), got.State, want)
		}
	}
	if got, _ := ParseTrace(aTrace, strings.Repeat("a", maxState+1)); got.State != "" {
		t.Error("a state is kept that is too long")
	}
}

func TestATraceReplacesThatOfAHeader(t *testing.T) {
	old := []Field{{[]byte("a"), []byte("1")}, {[]byte(Traceparent), []byte("old")}, {[]byte(Tracestate), []byte("old")}, {[]byte("b"), []byte("2")}}
	now, _ := ParseTrace(aTrace, "")
	m := Message{Header: now.Put(old)}
	if len(m.Header) != 3 || string(m.Get("a")) != "1" || string(m.Get("b")) != "2" || string(m.Get(Traceparent)) != aTrace || m.Get(Tracestate) != nil {
		t.Errorf("the header is %q", m.Header)
	}
	if string(old[1].Value) != "old" {
		t.Error("the header that was given was changed")
	}
	if got, ok := TraceOf(&m); !ok || got != now {
		t.Errorf("the trace of the message is %v", got)
	}
	if n := testing.AllocsPerRun(100, func() { _ = (*Trace)(nil).Put(old) }); n != 0 {
		t.Errorf("what is not followed costs %v allocations", n)
	}
	if got := TraceIn(WithTrace(context.Background(), &now)); got != &now {
		t.Errorf("the trace of the context is %v", got)
	}
}
