package request_test

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/serve/request"
)

func TestRefusedKeysAreLoggedNowAndThen(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC)
	r := request.NewRefusals(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	from := netip.MustParseAddr("192.0.2.7")
	for range 1000 {
		r.Refused(from)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "count=1 sender=192.0.2.7") {
		t.Fatalf("a thousand at once are logged as\n%s", got)
	}
	now = now.Add(request.RefusalsEvery)
	r.Refused(from)
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "count=1000 ") {
		t.Errorf("a minute later:\n%s", got)
	}
}
