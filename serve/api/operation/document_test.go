package operation_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

var makeDocument = operation.Act[operation.None, operation.Document]("makeDocument", "document", "Make it.")

// made is the answer of a document that is written so, and the error of who was to write it; cut: the
// answer was cut off.
func made(write func(io.Writer) error) (w *httptest.ResponseRecorder, err error, cut bool) {
	h := makeDocument.By(func(context.Context, *operation.None) (operation.Document, error) {
		return operation.Document{Type: "application/zstd", Write: write}, nil
	})
	w = httptest.NewRecorder()
	defer func() { cut = recover() == http.ErrAbortHandler }()
	err = h.Serve(w, httptest.NewRequest(http.MethodPost, "/api/v1/document", nil))
	return w, err, false
}

func TestADocumentThatCouldNotBeEndedIsCutOff(t *testing.T) {
	broken := errors.New("the disk is gone")
	if w, err, cut := made(func(w io.Writer) error { _, err := w.Write([]byte("all")); return err }); err != nil || cut || w.Body.String() != "all" || w.Header().Get("Content-Type") != "application/zstd" {
		t.Errorf("whole: %v, %v, %q", err, cut, w.Body)
	}
	if _, _, cut := made(func(w io.Writer) error { _, _ = w.Write([]byte("half")); return broken }); !cut {
		t.Error("who asked takes a half for the whole")
	}
	if w, err, cut := made(func(io.Writer) error { return broken }); !errors.Is(err, broken) || cut || w.Body.Len() > 0 {
		t.Errorf("not begun: %v, %v, %q; want its error alone, which the API says", err, cut, w.Body)
	}
}
