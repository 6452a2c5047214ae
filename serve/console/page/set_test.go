package page_test

import (
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/serve/console/page"
)

// set is one with a page that says a word, by a part and a function of its own.
func set(name, word string) *page.Set {
	return &page.Set{Name: name, Places: []page.Place{{Section: name, Text: "Place of " + name, Path: name, Op: "look"}},
		Pages: []page.Page{{Path: name, Show: func(*page.Visit) (*page.View, error) {
			return &page.View{File: "list", Title: name}, nil
		}}},
		Funcs: template.FuncMap{"word": func() string { return word }},
		Templates: fstest.MapFS{
			"templates/_own.html": {Data: []byte(`{{define "own"}}its word is {{word}}{{end}}`)},
			"templates/list.html": {Data: []byte(`{{define "main"}}<h1>{{template "own" .}}</h1>{{end}}`)},
		}}
}

func open(runs func(*page.Set) bool, sets ...*page.Set) (http.Handler, error) {
	mux := http.NewServeMux()
	_, err := page.New(page.Parts{Operations: []operation.Handler{{Description: &operation.Description{ID: "look", Role: caller.Viewer}}}}, mux, func(name string) string { return "/console/assets/" + name }, runs, sets...)
	return mux, err
}

func all(*page.Set) bool { return true }

func read(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(caller.With(t.Context(), caller.Caller{Name: "ada", Rights: caller.All(caller.Viewer)}), http.MethodGet, path, nil))
	return rec.Body.String()
}

// TestSetsHaveTemplatesOfTheirOwn: two sets call their pages, parts and functions the same.
func TestSetsHaveTemplatesOfTheirOwn(t *testing.T) {
	h, err := open(all, set("one", "sea"), set("two", "land"))
	if err != nil {
		t.Fatal(err)
	}
	for name, word := range map[string]string{"one": "sea", "two": "land"} {
		if said := read(t, h, "/console/"+name); !strings.Contains(said, "<h1>its word is "+word+"</h1>") {
			t.Errorf("the page of %s says %s", name, said)
		}
	}
}

// TestPlacesOfSystemsThatRunAreShown: the pages of the others are there too, and say why they are empty.
func TestPlacesOfSystemsThatRunAreShown(t *testing.T) {
	h, err := open(func(s *page.Set) bool { return s.Name == "one" }, set("one", "sea"), set("two", "land"))
	if err != nil {
		t.Fatal(err)
	}
	if said := read(t, h, "/console/two"); !strings.Contains(said, "Place of one") || strings.Contains(said, "Place of two") || !strings.Contains(said, "land") {
		t.Errorf("it says %s", said)
	}
}

func TestNamesThatTwoSetsUseAreRefused(t *testing.T) {
	for want, change := range map[string]func(one, two *page.Set){
		`two places "one"`: func(_, two *page.Set) { two.Places[0].Section = "one" },
		`two keys "x"`:     func(one, two *page.Set) { one.Places[0].Key, two.Places[0].Key = "x", "x" },
		`two words for "done"`: func(one, two *page.Set) {
			one.Said, two.Said = map[string]string{"done": "a"}, map[string]string{"done": "b"}
		},
		`the part "turn" is the fram`: func(_, two *page.Set) {
			two.Templates.(fstest.MapFS)["templates/_own.html"].Data = []byte(`{{define "turn"}}{{end}}`)
		},
		"two sets of the console have the page of getThing": func(one, two *page.Set) {
			at := func(map[string]string) string { return "" }
			one.Things, two.Things = map[string]func(map[string]string) string{"getThing": at}, map[string]func(map[string]string) string{"getThing": at}
		},
	} {
		one, two := set("one", "sea"), set("two", "land")
		change(one, two)
		if _, err := open(all, one, two); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestTheNavigationShowsWhatRolesAreFor(t *testing.T) {
	one, two := set("one", "sea"), set("two", "land")
	one.Places[0].Op, two.Places[0].Op = "lookAtOne", "lookAtTwo"
	mux := http.NewServeMux()
	does := []operation.Handler{{Description: &operation.Description{ID: "lookAtOne", Role: caller.Viewer, System: "one"}}, {Description: &operation.Description{ID: "lookAtTwo", Role: caller.Viewer, System: "two"}}}
	if _, err := page.New(page.Parts{Operations: does}, mux, func(name string) string { return name }, all, one, two); err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"one", "two"} {
		rec := httptest.NewRecorder()
		who := caller.Caller{Name: "ada", Rights: caller.For(caller.Viewer, system)}
		mux.ServeHTTP(rec, httptest.NewRequestWithContext(caller.With(t.Context(), who), http.MethodGet, "/console/"+system, nil))
		for _, place := range []string{"one", "two"} {
			if shown := strings.Contains(rec.Body.String(), "Place of "+place); shown != (place == system) {
				t.Errorf("a viewer of %s is shown the place of %s: %v", system, place, shown)
			}
		}
	}
}

// TestWhatIsCoveredIsNotInAForm has a payload that is shown in parts.
func TestWhatIsCoveredIsNotInAForm(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/console/dead/crm/5/edit", nil)
	if e := page.NewEditing(&page.Visit{R: r}, "e1", `{"email":"(text)"}`, "", true); e.Text != "" || e.JSON || e.ETag != "e1" || e.Why != "Parts of it are covered here, and would be lost." {
		t.Errorf("a covered payload: %+v", e)
	}
	if e := page.NewEditing(&page.Visit{R: r}, "e1", `{"email":"ann"}`, "", false); e.Text == "" || !e.JSON || e.Why != "" {
		t.Errorf("a whole payload: %+v", e)
	}
}
