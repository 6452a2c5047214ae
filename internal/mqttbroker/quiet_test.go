package mqttbroker

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/logbook"
)

// What the library logs comes as records of ours, without packets.
func TestTheLibrarysLogComesAsRecordsOfOurs(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(&quiet{log: logbook.Watch(t, slog.New(slog.NewTextHandler(&b, nil)))})
	log.Info("mochi mqtt starting", "version", "2")
	log.With("listener", "tcp").Warn("error processing packet", "error", errors.New("it is too large"), "client", "meter-7", "pk", "canary")
	log.With("hook", "gate", "pk", "canary").Error("publish packet error", "error", errors.New("it is none"))
	for _, want := range []string{
		`level=INFO msg="mqtt broker: trouble with a client" text="error processing packet" error="it is too large" client=meter-7`,
		`level=WARN msg="mqtt broker: the library had an error" text="publish packet error" error="it is none" client="" hook=gate`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no record %s", want)
		}
	}
	if got := b.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "canary") {
		t.Errorf("the log:\n%s", got)
	}
}
