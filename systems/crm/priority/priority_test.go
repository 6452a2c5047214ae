package priority_test

import (
	"testing"

	"github.com/tidemill/tidemill/systems/crm/priority"
)

func TestDefaults(t *testing.T) {
	table, err := priority.New(priority.Default())
	if err != nil {
		t.Fatal(err)
	}
	for level, types := range map[uint8][]string{
		priority.High:   {"contactPreference.updated", "scl.payment.failed", "payment.failed", "teetime.payment.failed", "message.bounced", "scl.message.bounced", "scl.member.status.changed", "member.status.changed"},
		priority.Low:    {"email.opened", "email.clicked", "teetime.score.posted", "score.posted", "scl.invoice.sent", "invoice.sent"},
		priority.Normal: {"member.created", "scl.member.created", "player.updated", "teetime.booking.made", "unlisted", "scl.", "payment.failed.twice"},
	} {
		for _, typ := range types {
			if got := table.Of(typ); got != level {
				t.Errorf("%s is of level %d, want %d", typ, got, level)
			}
		}
	}
}

func TestOrder(t *testing.T) {
	table, err := priority.New(priority.Rules{High: []string{"member.*", "scl.*", "scl.b"}, Normal: []string{"member.status.*"}, Low: []string{"member.seen", "teetime.b"}, Prefixes: []string{"scl.", "teetime."}})
	if err != nil {
		t.Fatal(err)
	}
	for typ, want := range map[string]uint8{
		"member.created":     priority.High,
		"member.seen":        priority.Low, // exact goes before a pattern
		"scl.member.seen":    priority.Low, // also without its prefix
		"member.status.old":  priority.Normal,
		"scl.other":          priority.High,
		"other":              priority.Normal, // all of an application's are not all
		"teetime.other":      priority.Normal,
		"scl.b":              priority.High, // the exact spelling
		"teetime.b":          priority.Low,
		"b":                  priority.High,
		"teetime.member.new": priority.High,
	} {
		if got := table.Of(typ); got != want {
			t.Errorf("%s is of level %d, want %d", typ, got, want)
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for _, r := range []priority.Rules{
		{High: []string{"a"}, Low: []string{"a"}},
		{High: []string{"a.*"}, Normal: []string{"a.*"}},
		{High: []string{"a b"}},
		{Prefixes: []string{""}},
	} {
		if _, err := priority.New(r); err == nil {
			t.Errorf("%+v was taken", r)
		}
	}
}
