package deliveryingest

import (
	"errors"
	"strings"
	"testing"
)

// What an operator sends needs no key, is judged singly, and is known when it comes again.
func TestAnOperatorSends(t *testing.T) {
	d := newEndpoint(t)
	send := func(raws ...string) (text string) {
		t.Helper()
		var all [][]byte
		for _, r := range raws {
			all = append(all, []byte(r))
		}
		results, err := d.Accept(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if text += r.Status + " "; r.Status == "rejected" && r.Why == "" {
				t.Errorf("nobody says why %+v", r)
			}
		}
		return strings.TrimSpace(text)
	}
	other := strings.Replace(view(""), `"shop"`, `"nowhere"`, 1)
	own := view(`,"idempotencyKey":"k1"`)
	if got := send(withID(one), view(""), "x", other, view(`,"eventId":"no"`), own); got != "accepted accepted rejected rejected rejected accepted" {
		t.Errorf("at first: %s", got)
	}
	d.wantJobs(3)
	// Again, in another order and with one that is new: each is known whatever protects it.
	if got := send(own, withID(two), view(""), withID(one)); got != "duplicate accepted duplicate duplicate" {
		t.Errorf("again: %s", got)
	}
	d.wantJobs(4)
	if got := send(view(`,"idempotencyKey":"k1","extra":1`)); got != "rejected" {
		t.Errorf("another event under a key that was used: %s", got)
	}
	d.queues.err = errors.New("the disk is gone")
	if r, err := d.Accept(t.Context(), [][]byte{[]byte(purchase("o-9"))}); err == nil {
		t.Errorf("accepted where nothing can be kept: %+v", r)
	}
}
