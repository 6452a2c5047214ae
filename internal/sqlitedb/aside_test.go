package sqlitedb

import (
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/internal/aside"
)

// However many look, a reader is left for the product's own work; who looks waits, but not for ever.
func TestWhoLooksLeavesAReaderToOthers(t *testing.T) {
	d := open(t, Options{Readers: 2})
	d.patient = time.Hour
	look, release := aside.Reading(t.Context()), make(chan struct{})
	began := make(chan struct{}, 10)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := d.Read(look, func(*Tx) error {
				began <- struct{}{}
				<-release
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	if err := d.Read(t.Context(), func(*Tx) error { return nil }); err != nil { // it would wait for ever
		t.Fatal(err)
	}
	if n := len(began); n > 0 {
		t.Errorf("%d others read for those who look at the same time", n)
	}
	close(release)
	all.Wait()
	for len(began) > 0 {
		<-began
	}
	release = make(chan struct{})
	d.patient = time.Millisecond
	all.Go(func() {
		_ = d.Read(look, func(*Tx) error {
			began <- struct{}{}
			<-release
			return nil
		})
	})
	<-began
	if err := d.Read(look, func(*Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	close(release)
	all.Wait()
}
