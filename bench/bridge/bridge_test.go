package bridge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/bench/rounds"
	"github.com/tidemill/tidemill/internal/mqttbroker"
)

// framed is a message as the bridge frames entry i.
func framed(i int) []byte {
	return fmt.Appendf(nil, `{"message":{"payload":%s},"redis":{"payload":{"id":"1700000000000-%d"}}}`, payload(i), i)
}

func TestMessagesTellTheirEntry(t *testing.T) {
	for _, i := range []int{0, 7, 149_999} {
		if n := len(payload(i)); n != 300 {
			t.Errorf("payload(%d) has %d bytes; want 300", i, n)
		}
		n, err := sequence(framed(i))
		id, err2 := entryID(framed(i))
		if want := fmt.Sprint("1700000000000-", i); n != i || string(id) != want || err != nil || err2 != nil {
			t.Errorf("entry %d reads back as number %d, id %s (%v, %v)", i, n, id, err, err2)
		}
	}
	if _, err := sequence([]byte(`{"seq":"x"}`)); err == nil {
		t.Error("a message without a number is taken")
	}
	if _, err := entryID(payload(1)); err == nil {
		t.Error("a message without an id is taken")
	}
}

func TestStreamReplies(t *testing.T) {
	reply := "*1\r\n*2\r\n$1\r\ns\r\n*2\r\n" +
		"*2\r\n$3\r\n1-0\r\n*2\r\n$7\r\npayload\r\n$2\r\n{}\r\n" +
		"*2\r\n$4\r\n10-1\r\n*2\r\n$7\r\npayload\r\n$0\r\n\r\n" +
		"*-1\r\n-NOGROUP no such group\r\n"
	p := &resp{r: bufio.NewReader(strings.NewReader(reply))}
	var b batch
	if err := p.stream(&b); err != nil || len(b.entries) != 2 ||
		string(b.entries[0].id)+string(b.entries[0].payload) != "1-0{}" || string(b.entries[1].id)+string(b.entries[1].payload) != "10-1" {
		t.Errorf("two entries read as %q, %v", b.entries, err)
	}
	if err := p.stream(&b); err != nil || len(b.entries) != 0 {
		t.Errorf("nothing read as %q, %v", b.entries, err)
	}
	if err := p.stream(&b); err == nil || !strings.Contains(err.Error(), "NOGROUP") {
		t.Errorf("an error reads as %v", err)
	}
}

func startBroker(t *testing.T) string {
	b, err := mqttbroker.Start(mqttbroker.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b.Addr()
}

func TestFarSideAnswersEveryMessageOnce(t *testing.T) {
	for _, each := range []bool{false, true} {
		t.Run(fmt.Sprintf("each by itself: %t", each), func(t *testing.T) {
			addr := startBroker(t)
			answers, err := newSubscriber(addr, "bridge", 1, "acks")
			if err != nil {
				t.Fatal(err)
			}
			defer answers.close()
			sub, err := newSubscriber(addr, "in", 1, "messages")
			if err != nil {
				t.Fatal(err)
			}
			pub, err := newPublisher(addr, "out", "acks", 10, true)
			if err != nil {
				t.Fatal(err)
			}
			defer pub.close()
			bridge, err := newPublisher(addr, "bridge-out", "messages", 100, true)
			if err != nil {
				t.Fatal(err)
			}
			defer bridge.close()

			h, ended := heard{}, make(chan error, 1)
			go func() { ended <- h.answer(sub, pub, each) }()
			const entries = 2000
			for i := range entries {
				if err := bridge.publish(framed(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := bridge.publish(framed(3)); err != nil { // again
				t.Fatal(err)
			}
			if err := bridge.finish(); err != nil {
				t.Fatal(err)
			}
			acked := map[string]int{}
			for n := 0; n < entries+1; {
				_, text, err := answers.next()
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasSuffix(string(text), `,"ack":true}`) || strings.HasPrefix(string(text), `{"id":`) != each {
					t.Fatalf("an answer says %s", text)
				}
				for _, word := range strings.Split(string(text), `"`) {
					if strings.HasPrefix(word, "1700000000000-") {
						acked[word]++
						n++
					}
				}
			}
			sub.close()
			if err := <-ended; err == nil {
				t.Error("it ends without saying why")
			}
			if len(acked) != entries || acked["1700000000000-3"] != 2 {
				t.Errorf("%d entries were acknowledged, the one that came twice %d times; want %d and 2", len(acked), acked["1700000000000-3"], entries)
			}
			if h.Messages != entries+1 || h.Entries != entries {
				t.Errorf("it heard %+v", h)
			}
		})
	}
}

func TestAPublisherSaysThatItsBrokerIsGone(t *testing.T) {
	b, err := mqttbroker.Start(mqttbroker.Options{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPublisher(b.Addr(), "p", "t", 10, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for range 11 { // one more than the window
		if err = p.publish(payload(1)); err != nil {
			return
		}
	}
	if err = p.finish(); err == nil {
		t.Error("everything is said to be published")
	}
}

func TestLateSendsCount(t *testing.T) {
	due := []time.Duration{0, 0, 0, 5 * time.Millisecond}
	var sent []int
	var flushed []int
	from := time.Now().Add(-time.Millisecond) // late from the beginning
	err := offer(context.Background(), from, due, func(i int) error { sent = append(sent, i); return nil }, func() error { flushed = append(flushed, len(sent)); return nil })
	if err != nil || fmt.Sprint(sent, flushed) != "[1 2 3] [2 3]" {
		t.Errorf("sent %v, flushed after %v, %v; want 1 and 2 at once and 3 when it is due", sent, flushed, err)
	}
	if early := time.Since(from); early < due[3] {
		t.Errorf("the last was sent after %v, before it was due", early)
	}
	if err := offer(context.Background(), from, due, func(int) error { return io.ErrClosedPipe }, func() error { return nil }); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an error of sending comes back as %v", err)
	}
}

func row(name string, rate float64) *result {
	return &result{Common: rounds.Common{Name: name}, Rate: rate}
}

func TestRatiosAreToTheSlowerLimitAndThePeerOnTheSameBroker(t *testing.T) {
	on := &broker{name: ", stock broker"}
	product := row("tidemill, stock broker", 50)
	round := []*result{row(drainLimit, 200), row(publishLimit, 80), row(publishLimit+on.name, 100), row(bentoName+on.name, 25), product}
	compare(round, measurement{name: product.Name, on: on}, product)
	if product.Limit != 0.5 || product.Bento != 2 {
		t.Errorf("50 beside limits of 200 and 100 and a peer of 25 is %v of the limit and %v of the peer", product.Limit, product.Bento)
	}
	acked := row(answered+"in bulk", 10)
	compare(append(round, row(answeredLimit+"in bulk", 40), row(answeredLimit+"singly", 20)), measurement{name: acked.Name, on: &broker{}}, acked)
	if acked.Limit != 0.25 {
		t.Errorf("10 beside the limit of 40 with the same receiver is %v of the limit", acked.Limit)
	}
}
