package answer

import (
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/systems/analytics/event"
)

func TestALetterShowsTheFieldsOfItsEntry(t *testing.T) {
	l := &deadletter.Letter{Message: tidemill.Message{Header: []tidemill.Field{
		{Name: []byte("event_name"), Value: []byte("bought")}, {Name: []byte("junk"), Value: []byte("\xff")}, {Name: []byte(event.MetaHeader), Value: []byte{1}}}}}
	got := DeadLetter(l, true).Fields
	want := []api.Field{{Name: "event_name", Value: "bought"}, {Name: "junk", ValueBase64: "/w=="}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("fields are %+v, want %+v", got, want)
	}
	if n := len(DeadLetter(l, false).Fields); n != 0 {
		t.Errorf("a listing shows %d fields, want none: they are long", n)
	}
}
