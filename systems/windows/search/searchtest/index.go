package searchtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/search"
)

func keepsBytes(w *world) {
	body := `{ "number": 9007199254740993, "extra":{"deep":[1.50,1e-7,12345678901234567890]},"tone":-0.50,  "title":"a é \u00e9 \"q\"","place":null}`
	w.index(w.doc("a b/c?d#e&f=1%2F", body))
	w.wantBody("a b/c?d#e&f=1%2F", body)
	w.wantIDs("number:9007199254740993", "a b/c?d#e&f=1%2F")
	w.wantIDs("number:9007199254740992")
}

func lineEnds(w *world) {
	w.index(w.doc("1", "{\n  \"code\":\"x\",\r\n  \"title\":\"a\\nb\"\n}\n"), w.doc("2", `{"code":"x"}`))
	w.wantIDs("code:x", "1", "2")
	w.wantIDs("b", "1")
}

func replay(w *world) {
	var docs []search.Doc
	for i := range 30 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	before := w.find(search.Query{})
	w.index(docs[10:]...)
	w.index(docs...)
	after := w.find(search.Query{})
	if len(before) != 30 || !slices.EqualFunc(before, after, func(a, b search.Hit) bool { return a.ID == b.ID && a.Day == b.Day && string(a.Body) == string(b.Body) }) {
		w.Errorf("%d documents, after the replay %d: they have changed", len(before), len(after))
	}
}

func replaces(w *world) {
	w.index(w.doc("1", `{"title":"old words","code":"old","count":1,"at":"2026-05-04T00:00:00Z"}`))
	w.index(w.doc("1", `{"title":"new words","code":"new","count":2}`))
	w.wantBody("1", `{"title":"new words","code":"new","count":2}`)
	for text, want := range map[string]int{"old": 0, "code:old": 0, "count:1": 0, "count:<2": 0, "at:2026": 0, "new": 1, "words": 1, "code:new": 1, "count:>1": 1} {
		if got := w.find(search.Query{Text: text}); len(got) != want {
			w.Errorf("%s finds %d documents after the change, want %d", text, len(got), want)
		}
	}
}

func idsPerDay(w *world) {
	a, b, c := w.doc("1", `{"code":"a"}`), w.doc("1", `{"code":"b"}`), w.doc("1", `{"code":"c"}`)
	b.Day, c.Schema = "2026-05-05", w.other.Name
	w.index(a, b, c)
	hits := w.find(search.Query{})
	days := []string{}
	for _, h := range hits {
		days = append(days, h.Day)
	}
	slices.Sort(days)
	want := []string{today, "2026-05-05"} // the second is long past, or in the future
	if slices.Sort(want); !slices.Equal(days, want) {
		w.Errorf("the id is there on %q, want on two days", days)
	}
	if hits := w.find(search.Query{Schema: w.other.Name}); len(hits) != 1 || string(hits[0].Body) != `{"code":"c"}` {
		w.Errorf("the other family has %d documents of the id, want its own", len(hits))
	}
}

func refusedAlone(w *world) {
	docs := []search.Doc{w.doc("1", `{}`), w.doc("", `{}`), w.doc("2", `{"number":"many"}`), w.doc("3", `{}`), w.doc("4", `{}`), w.doc("5", `{}`), w.doc("\xff", `{}`), w.doc(strings.Repeat("x", search.MaxID+1), `{}`), w.doc("6", `{}`)}
	docs[4].Day = "2026-5-4"
	docs[5].Schema = "nothing"
	w.wantRefused(docs, tidemill.Validation, 1, 2, 4, 5, 6, 7)
	w.wantIDs("", "1", "3", "6")
}

func misfits(w *world) {
	bad := []string{
		`{"number":"many"}`, `{"number":true}`, `{"number":{"a":1}}`, `{"number":9223372036854775808}`,
		`{"flag":300}`, `{"kind":40000}`, `{"count":2147483648}`, `{"tone":"low"}`,
		`{"at":"yesterday"}`, `{"at":"2026-13-01"}`, `{"at":""}`, `{"code":{"a":1}}`, `{"title":{"a":1}}`,
		`{"where":{"lat":91,"lon":0}}`, `{"where":{"lat":0,"lon":181}}`, `{"where":{"lat":"x","lon":0}}`,
		`[1]`, `{"number":`, `1`,
	}
	var docs []search.Doc
	var all []int
	for i, b := range bad {
		docs, all = append(docs, w.doc(fmt.Sprint(i), b)), append(all, i)
	}
	w.wantRefused(docs, tidemill.Validation, all...)
	for i, b := range []string{
		`{"number":"14","flag":1.7,"count":"","tone":"1.5","at":"2026-05-04","code":7,"title":true}`,
		`{"number":null,"at":1777852800000,"where":{"lat":0,"lon":0}}`,
		`{"at":"2026-05-04T10:00:00.123+02:00","added":"2026-05"}`, `{"url":"http://x","note":"y"}`,
	} {
		if err := w.Store.Index(w.Context(), []search.Doc{w.doc(fmt.Sprint("good-", i), b)}); err != nil {
			w.Errorf("%s is refused: %v", b, err)
		}
	}
	w.refresh()
	w.wantIDs("number:14 flag:1 tone:1.5 code:7 title:true at:2026-05-04", "good-0")
	w.wantIDs("at:2026-05-04T00:00:00Z", "good-0", "good-1")
	w.wantIDs("at:2026-05-04T08:00:00.123Z added:2026-05", "good-2")
}

func unknownNames(w *world) {
	w.index(w.doc("1", `{"sentiment":1,"code":"x"}`))
	w.index(w.doc("2", `{"sentiment":{"value":"good"},"code":"x"}`)) // types are not guessed, so they never conflict
	w.wantIDs("code:x", "1", "2")
	w.wantBody("1", `{"sentiment":1,"code":"x"}`)
}

func versions(w *world) {
	at := func(version uint64, body string) search.Doc {
		d := w.doc("1", body)
		d.Version = version
		return d
	}
	w.index(at(5, `{"code":"five"}`))
	w.index(at(4, `{"code":"four"}`))
	w.wantBody("1", `{"code":"five"}`)
	w.index(at(5, `{"code":"five again"}`))
	w.wantBody("1", `{"code":"five again"}`)
	w.index(at(6, `{"code":"six"}`), at(4, `{"code":"four"}`))
	w.wantBody("1", `{"code":"six"}`)
	w.index(at(0, `{"code":"none"}`))
	w.wantBody("1", `{"code":"none"}`)
	w.index(at(6, `{"code":"six"}`))
	w.wantBody("1", `{"code":"none"}`)
}

func onceInCall(w *world) {
	w.index(w.doc("1", `{"code":"a"}`), w.doc("2", `{"code":"a"}`), w.doc("1", `{"code":"b"}`))
	w.wantBody("1", `{"code":"b"}`)
	w.wantIDs("", "1", "2")
	// The newest is refused: the other may be sent again, and is then accepted.
	docs := []search.Doc{w.doc("3", `{"code":"good"}`), w.doc("3", `{"number":"bad"}`)}
	err := w.Store.Index(w.Context(), docs)
	partly, ok := errors.AsType[*tidemill.Partial](err)
	if !ok {
		w.Fatalf("Index with a bad document: %v", err)
	}
	for _, f := range partly.Failed {
		if k := tidemill.KindOf(f.Err); (k == tidemill.Validation) != (f.Index == 1) {
			w.Errorf("document %d is refused as %v", f.Index, k)
		}
	}
	w.index(docs[0])
	w.wantBody("3", `{"code":"good"}`)
}

func unrealDays(w *world) {
	d := w.doc("1", `{"code":"x","at":null}`)
	d.Day = "9999-99-99"
	w.index(d)
	if hits := w.find(search.Query{Text: "code:x"}); len(hits) != 1 || hits[0].Day != "9999-99-99" {
		w.Errorf("found %+v", hits)
	}
}

func longIDs(w *world) {
	id := search.ID([]byte("1_" + strings.Repeat("é", 3000)))
	w.index(w.doc(id, `{}`), w.doc(strings.Repeat("x", search.MaxID), `{}`))
	w.wantIDs("", id, strings.Repeat("x", search.MaxID))
}

func concurrent(w *world) {
	var wg sync.WaitGroup
	for lane := range 8 {
		wg.Go(func() {
			for round := range 5 {
				var docs []search.Doc
				for i := range 20 {
					docs = append(docs, w.doc(fmt.Sprint(lane, "-", i), fmt.Sprintf(`{"number":%d,"title":"shared","code":"r%d"}`, i, round)))
				}
				docs = append(docs, w.doc("common", `{"title":"shared"}`))
				if err := w.Store.Index(w.Context(), docs); err != nil {
					w.Errorf("Index: %v", err)
				}
			}
		})
	}
	wg.Wait()
	w.refresh()
	if n := len(w.find(search.Query{Text: "shared"})); n != 8*20+1 {
		w.Errorf("%d documents, want %d", n, 8*20+1)
	}
	if n := len(w.find(search.Query{Text: "code:r4"})); n != 8*20 {
		w.Errorf("%d documents of the last round, want %d", n, 8*20)
	}
}

func ownsMemory(w *world) {
	body := []byte(`{"code":"first"}`)
	d := w.doc("1", "")
	d.Body = body
	w.index(d)
	copy(body, `{"code":"xxxxx"}`)
	w.wantBody("1", `{"code":"first"}`)
	hit := w.find(search.Query{})[0].Body
	copy(hit, `{"code":"yyyyy"}`)
	w.wantBody("1", `{"code":"first"}`)
}

func endedContext(w *world) {
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	if err := w.Store.Index(ctx, []search.Doc{w.doc("1", `{}`)}); !errors.Is(err, context.Canceled) {
		w.Errorf("Index: %v", err)
	}
	if _, err := w.Store.Search(ctx, search.Query{Schema: w.schema.Name}); !errors.Is(err, context.Canceled) {
		w.Errorf("Search: %v", err)
	}
	if _, err := w.Store.Expire(ctx, time.Now()); !errors.Is(err, context.Canceled) {
		w.Errorf("Expire: %v", err)
	}
	w.refresh()
	w.wantIDs("")
}

func survives(w *world) {
	if w.Reopen == nil {
		return
	}
	var docs []search.Doc
	for i := range 20 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	w.Store = w.Reopen()
	if n := len(w.find(search.Query{Text: "number"})); n != 20 {
		w.Errorf("%d documents after opening again, want 20", n)
	}
	w.index(docs...)
	w.index(w.doc("new", `{"title":"one more"}`))
	if n := len(w.find(search.Query{})); n != 21 {
		w.Errorf("%d documents after indexing them again and one more, want 21", n)
	}
}

func setupAgain(w *world) {
	w.index(w.doc("1", `{"title":"words"}`))
	for range 2 {
		if err := w.Store.Setup(w.Context()); err != nil {
			w.Fatalf("Setup: %v", err)
		}
	}
	w.wantIDs("words", "1")
}

func health(w *world) {
	if err := w.Store.Health(w.Context()); err != nil {
		w.Errorf("of an empty index: %v", err)
	}
	w.index(w.doc("1", `{}`))
	if err := w.Store.Health(w.Context()); err != nil {
		w.Errorf("of one with a document: %v", err)
	}
}

func expires(w *world) {
	old, kept := w.doc("1", `{"title":"old"}`), w.doc("1", `{"title":"kept"}`)
	old.Day, kept.Schema, kept.Day = yesterday, w.other.Name, yesterday
	w.index(old, w.doc("2", `{"title":"old"}`), kept)
	now := time.Now()
	if gone, err := w.Store.Expire(w.Context(), now.Add(w.schema.Keep-time.Hour)); err != nil || len(gone) != 0 {
		w.Fatalf("an hour too early %q went: %v", gone, err)
	}
	gone, err := w.Store.Expire(w.Context(), now.Add(w.schema.Keep+time.Hour))
	slices.Sort(gone)
	if want := []string{w.schema.Index(yesterday), w.schema.Index(today)}; err != nil || !slices.Equal(gone, want) {
		w.Fatalf("%q went, want %q: %v", gone, want, err)
	}
	w.refresh()
	w.wantIDs("old")
	w.wantIDs("")
	if n := len(w.find(search.Query{Schema: w.other.Name, Text: "kept"})); n != 1 {
		w.Errorf("a family that is kept for ever has %d documents, want 1", n)
	}
	w.index(old) // a replay brings it back, as a new index
	w.wantIDs("old", "1")
	if gone, err := w.Store.Expire(w.Context(), now); err != nil || len(gone) != 0 {
		w.Errorf("%q went that came back: %v", gone, err)
	}
}
