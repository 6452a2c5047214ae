package operation_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

type followed struct {
	Follow bool `query:"follow"`
}

func (f followed) Live() bool { return f.Follow }

var followedNumbers = operation.List[followed, line]("followedNumbers", "numbers", "List numbers.")

// A client takes a listing for the whole where its last line says so, of as many as it has.
func TestAListingWithoutItsEndIsAnError(t *testing.T) {
	for body, want := range map[string]struct {
		items int
		fails string // a part of the error; empty: it is whole
	}{
		"{\"whole\":{\"items\":0}}\n":                         {},
		"{\"n\":1}\n{\"n\":2}\n{\"whole\":{\"items\":2}}\n":   {items: 2},
		"{\"n\":1}\n{\"whole\":{\"items\":1}}":                {items: 1},
		"{\"n\":1}\n{\"whole\":{\"items\":1,\"looked\":9}}\n": {items: 1, fails: "ends after 9 entries"},
		"":                                       {fails: "cut off"},
		"{\"n\":1}\n":                            {items: 1, fails: "does not say that it is whole"},
		"{\"n\":1}\n{\"whole\":{\"items\":2}}\n": {items: 1, fails: "does not say that it is whole"},
		"{\"n\":1}\n{\"whole\":{\"ite":           {items: 1, fails: "cut off"},
		"{\"n\":1}\n{\"problem\":{\"status\":500,\"detail\":\"disk broke\"}}\n": {items: 1, fails: "disk broke"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", operation.LinesType)
			_, _ = w.Write([]byte(body))
		}))
		c := &operation.Client{HTTP: s.Client(), Base: s.URL}
		for _, live := range []bool{false, true} {
			items, failed := 0, error(nil)
			for _, err := range followedNumbers.Each(t.Context(), c, &followed{live}) {
				if err == nil {
					items++
				}
				failed = errors.Join(failed, err)
			}
			fails := want.fails != "" && (!live || strings.Contains(body, "problem") || strings.Contains(body, "looked"))
			if items != want.items || (failed != nil) != fails || fails && !strings.Contains(failed.Error(), want.fails) {
				t.Errorf("live %t, %q: %d items and %v, want %+v", live, body, items, failed, want)
			}
		}
		s.Close()
	}
}

type endless struct {
	Whole string `json:"whole"`
}

func TestNoItemIsTakenForTheEnd(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "taken for the end") {
			t.Error("an item that looks like the end of its listing is described")
		}
	}()
	operation.List[operation.None, endless]("a", "a", "")
}
