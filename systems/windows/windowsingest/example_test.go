package windowsingest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows/windowsingest"
)

func Example() {
	windows, err := tablewindow.Memory(window.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	endpoint, err := windowsingest.New(windowsingest.Options{Windows: windows}) // without Projects: only for programs of this machine
	if err != nil {
		fmt.Println(err)
		return
	}
	lines := `{"globalEventId":1,"day":20250323}
{"globalEventId":2,"day":"today"}
`
	r := httptest.NewRequest(http.MethodPost, "/v1/windows/events?batch=20250323151500", strings.NewReader(lines))
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	endpoint.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output:
	// 202 {"batch":"20250323151500","accepted":1,"duplicate":0,"rejected":1,"refused":[{"index":1,"line":2,"message":"the event is refused: day is a text, want an integer or null"}]}
}
