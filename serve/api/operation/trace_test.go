package operation_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

func TestTheTraceOfATraceparentIsHeeded(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for header, want := range map[string]string{
		"00-" + id + "-" + parent + "-01":                      id,
		"00-" + id + "-" + parent + "-00":                      id,
		"01-" + id + "-" + parent + "-01-more":                 id, // of a later version
		"00-" + id + "-" + parent + "-01-more":                 "",
		"ff-" + id + "-" + parent + "-01":                      "",
		"00-" + strings.ToUpper(id) + "-" + parent + "-01":     "",
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01": "",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":     "",
		"00-" + id + "-" + parent:                              "",
		"00-" + id[1:] + "-" + parent + "-01":                  "",
		"x\n":                                                  "",
		"":                                                     "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Traceparent"] = []string{header}
		if got := operation.TraceOf(operation.Identified(httptest.NewRecorder(), r).Context()); got.Whole != want || len(got.ID) != 36 {
			t.Errorf("%q gives %+v, want %q", header, got, want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header["Traceparent"] = []string{"00-" + id + "-" + parent + "-01", "00-" + id + "-" + parent + "-01"}
	if got := operation.TraceOf(operation.Identified(httptest.NewRecorder(), r).Context()); got.Whole != "" {
		t.Errorf("two headers give %+v", got)
	}
}

func TestRecordsHaveTheIDsOfTheirRequest(t *testing.T) {
	var b strings.Builder
	log := operation.Logging(slog.New(slog.NewTextHandler(&b, nil)))
	if operation.Logging(log) != log {
		t.Error("a log is made one twice")
	}
	ctx := operation.Traced(t.Context(), &operation.Trace{ID: "my-id", Whole: "4bf9"})
	log.With("system", "api").InfoContext(ctx, "done")
	log.InfoContext(context.Background(), "else")
	lines := strings.Split(b.String(), "\n")
	if !strings.HasSuffix(lines[0], "msg=done system=api request=my-id trace=4bf9") || !strings.HasSuffix(lines[1], "msg=else") {
		t.Errorf("the records are %q", lines)
	}
}
