package searchtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/search"
)

func queries(w *world) {
	w.index(
		w.doc("1", `{"number":1,"at":"2026-05-01T00:00:00Z","title":"Human rights protest","place":"Berlin, Germany","code":"USA","count":3,"tone":-5.5,"added":"2026-05-01T23:59:59Z"}`),
		w.doc("2", `{"number":2,"at":"2026-05-02T12:30:00Z","title":"rights of humans","place":"Paris","code":"usa","count":-3,"tone":0,"added":"2026-05-02T00:00:00Z"}`),
		w.doc("3", `{"number":3,"at":"2026-05-31T23:59:59Z","title":"PROTEST","place":"United States","code":"a b:\"c\"","count":0,"tone":1e3,"flag":-1}`),
		w.doc("4", `{"number":4,"at":null,"title":"United","place":"States","code":"","flag":1,"kind":7}`),
		w.doc("5", `{"number":-5,"at":"2025-12-31T23:59:59.999Z","title":null,"code":"ÄÖ","tone":-0.0,"url":"http://x/protest","note":"protest"}`),
		w.doc("6", `{}`),
		w.doc("7", fmt.Sprintf(`{"title":%q,"code":%q}`, "tiny "+strings.Repeat("x", 252), strings.Repeat("k", 8191))),
		w.doc("8", fmt.Sprintf(`{"title":%q,"code":%q}`, "tiny "+strings.Repeat("x", 253), strings.Repeat("k", 8192))),
	)
	all := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	but := func(less ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(less, id) })
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", all},
		{"  ", all},
		{"protest", []string{"1", "3"}}, // neither url nor note
		{"Protest", []string{"1", "3"}},
		{"protests", nil},
		{"rights protest", []string{"1"}},
		{"protest germany", []string{"1"}}, // each in another field
		{`"human rights"`, []string{"1"}},
		{`"rights human"`, nil},
		{`"united states"`, []string{"3"}}, // not over two fields
		{"united states", []string{"3", "4"}},
		{`"Berlin, GERMANY"`, []string{"1"}},
		{"title:united", []string{"4"}},
		{`place:"united states"`, []string{"3"}},
		{"-protest", but("1", "3")},
		{`-"human rights" -title:united`, but("1", "4")},
		{"protest -rights", []string{"3"}},
		{"code:USA", []string{"1"}},
		{"code:usa", []string{"2"}},
		{"-code:USA", but("1")},
		{`code:ÄÖ`, []string{"5"}},
		{`code:""`, []string{"4"}},
		{"title.keyword:PROTEST", []string{"3"}},
		{"title.keyword:protest", nil},
		{`title.keyword:"Human rights protest"`, []string{"1"}},
		{`-title.keyword:"Human rights protest" protest`, []string{"3"}},
		{"tiny", []string{"7", "8"}},
		{`title.keyword:"tiny ` + strings.Repeat("x", 251) + `x"`, nil}, // only up to 256 are indexed
		{"number:3", []string{"3"}},
		{"number:-5", []string{"5"}},
		{"-number:3", but("3")},
		{"count:0", []string{"3"}},
		{"count:>=0", []string{"1", "3"}},
		{"count:>0", []string{"1"}},
		{"count:<0", []string{"2"}},
		{"count:<=0", []string{"2", "3"}},
		{"count:-3..0", []string{"2", "3"}},
		{"count:..-3", []string{"2"}},
		{"count:1..", []string{"1"}},
		{"-count:1..", but("1")},
		{"flag:-1 count:0", []string{"3"}},
		{"kind:7", []string{"4"}},
		{"tone:-5.5", []string{"1"}},
		{"tone:0", []string{"2", "5"}},
		{"tone:-0", []string{"2", "5"}},
		{"-tone:0", but("2", "5")},
		{"tone:>=0", []string{"2", "3", "5"}},
		{"tone:>0", []string{"3"}},
		{"tone:<=0", []string{"1", "2", "5"}},
		{"tone:<0", []string{"1"}},
		{"tone:1000", []string{"3"}},
		{"tone:<-5", []string{"1"}},
		{"tone:-5.5..0", []string{"1", "2", "5"}},
		{"tone:>-5.5", []string{"2", "3", "5"}},
		{"at:2026-05-01", []string{"1"}},
		{"at:2026-05", []string{"1", "2", "3"}},
		{"at:2025", []string{"5"}},
		{"-at:2026", but("1", "2", "3")},
		{"at:2026-05-01..2026-05-02", []string{"1", "2"}},
		{"at:>2026-05-01", []string{"2", "3"}},
		{"at:>=2026-05-02", []string{"2", "3"}},
		{"at:<2026-05-02", []string{"1", "5"}},
		{"at:<=2026-05-02", []string{"1", "2", "5"}},
		{"at:..2026-05-01", []string{"1", "5"}},
		{"at:2026-05-31..", []string{"3"}},
		{"at:2026-05-02T12:30:00Z", []string{"2"}},
		{"at:>2026-05-02T12:30:00Z", []string{"3"}},
		{"at:2026-05-02T14:30:00+02:00..2026-05-02T14:30:00+02:00", []string{"2"}},
		{"added:2026-05-01 tone:<0 protest", []string{"1"}},
		{"at:<1970-01-01", nil},
		{"code:" + strings.Repeat("k", 3000), nil},
	} {
		w.wantIDs(c.text, c.want...)
	}
}

func wordsAlike(w *world) {
	texts := []string{
		"U.S. don't stop O’Neil's well-known e-mail", "snake_case and CamelCase mixed42letters 3.14 1,000 10:30", "ÉCOLE école straße STRASSE İstanbul ΣΊΣΥΦΟΣ",
		"東京 タワー ひらがな 한국어 中国人", "ไทยแลนด์ и кириллица", "emoji 😀 between", "a.b,c;d:e/f\\g@h#i$j%k^l&m*n(o)p", "עברית ת\"א عربى", "long " + strings.Repeat("y", 300), "tab\tand\nline", "naïve cafe\u0301 résumé", "x²+y₂ ½ № 5",
	}
	var docs []search.Doc
	for i, text := range texts {
		quoted := strings.NewReplacer("\\", `\\`, `"`, `\"`, "\t", `\t`, "\n", `\n`).Replace(text)
		docs = append(docs, w.doc(fmt.Sprint(i), `{"title":"`+quoted+`"}`))
	}
	w.index(docs...)
	for i, text := range texts {
		words := search.Words(text)
		for n, word := range words {
			if !slices.Contains(ids(w.find(search.Query{Text: `"` + strings.ReplaceAll(word, `"`, "") + `"`})), fmt.Sprint(i)) && !strings.Contains(word, `"`) {
				w.Errorf("%q of %q is not found", word, text)
			}
			if n > 0 && !strings.Contains(word+words[n-1], `"`) {
				if q := `"` + words[n-1] + " " + word + `"`; !slices.Contains(ids(w.find(search.Query{Text: q})), fmt.Sprint(i)) {
					w.Errorf("%s of %q is not found", q, text)
				}
			}
		}
	}
	for q, want := range map[string][]string{
		"s": nil, "don": nil, "don't": {"0"}, "U.S": {"0"}, "us": nil, "mail": {"0"}, "e-mail": {"0"}, "snake": nil, "snake_case": {"1"}, "camelcase": {"1"}, "3.14": {"1"}, "3": nil, "000": nil,
		"École": {"2"}, "ecole": nil, "strasse": {"2"}, "ΣΊσυφος": nil, "東": {"3"}, "東京": {"3"}, "京東": nil, "タワー": {"3"}, "タワ": nil, "中国": {"3"}, "ไทยแลนด์": {"4"}, "КИРИЛЛИЦА": {"4"},
		`"emoji between"`: nil, "😀": {"5"}, "line": {"9"}, "naive": nil, "5": {"11"},
	} {
		w.wantIDs(q, want...)
	}
}

func badQueries(w *world) {
	w.index(w.doc("1", `{"code":"x"}`))
	for _, text := range []string{
		"nothing:1", "http://x", `"open`, "title:", "title:...", "-", "...", "count:many", "count:1.5", "count:3000000000", "flag:128", "tone:low", "tone:NaN", "at:yesterday", "at:2026-13-01", "count:..", "count:>", "count:1..x",
		"url:x", "note:x", "where:1", "code.keyword:x", strings.Repeat("x ", 65), strings.Repeat("x", 5000), "\xff", "a\x00b",
	} {
		if p, err := w.Store.Search(w.Context(), search.Query{Schema: w.schema.Name, Text: text}); err == nil || tidemill.KindOf(err) != tidemill.Validation {
			w.Errorf("%.30q: %d hits, error %v of kind %v, want one of kind validation", text, len(p.Hits), err, tidemill.KindOf(err))
		}
	}
	for _, q := range []search.Query{{Schema: "nothing"}, {}, {Schema: w.schema.Name, Size: -1}, {Schema: w.schema.Name, Size: search.MaxSize + 1}, {Schema: w.schema.Name, After: "?"}, {Schema: w.schema.Name, After: "AAAA"}, {Schema: w.schema.Name, Before: "?"}, {Schema: w.schema.Name, After: "AAAA", Before: "AAAA"}} {
		if _, err := w.Store.Search(w.Context(), q); tidemill.KindOf(err) != tidemill.Validation {
			w.Errorf("%+v: %v", q, err)
		}
	}
}

// walk reads all pages.
func (w *world) walk(q search.Query, between func()) (all []search.Hit) {
	w.Helper()
	for pages := 0; ; pages++ {
		p, err := w.Store.Search(w.Context(), q)
		if err != nil {
			w.Fatalf("page %d of %+v: %v", pages, q, err)
		}
		if len(p.Hits) > q.Size || p.Next != "" && len(p.Hits) != q.Size || pages > 200 {
			w.Fatalf("page %d of %d hits has %d, and a next: %t", pages, q.Size, len(p.Hits), p.Next != "")
		}
		all = append(all, p.Hits...)
		if q.After = p.Next; p.Next == "" {
			return all
		}
		if between != nil {
			between()
		}
	}
}

func paging(w *world) {
	var docs []search.Doc
	for i := range 60 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	// By time, those without one as the oldest; then by number and code.
	at := func(i int) int {
		if i%9 == 8 {
			return -1
		}
		return i / 5
	}
	order := []int{}
	for i := range 60 {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		if at(a) != at(b) {
			return at(a) - at(b)
		}
		if a%4 != b%4 {
			return a%4 - b%4
		}
		return strings.Compare(fmt.Sprint("c", a), fmt.Sprint("c", b))
	})
	for _, text := range []string{"", "number", "number:1..2"} {
		for _, oldest := range []bool{true, false} {
			var want []string
			for _, i := range order {
				if text != "number:1..2" || i%4 == 1 || i%4 == 2 {
					want = append(want, fmt.Sprintf("id-%03d", i))
				}
			}
			if !oldest {
				slices.Reverse(want)
			}
			sizes := []int{7, len(want), 1000}
			if text == "number:1..2" {
				sizes = append(sizes, 1)
			}
			for _, size := range sizes {
				var got []string
				for _, h := range w.walk(search.Query{Schema: w.schema.Name, Text: text, Size: size, Oldest: oldest}, nil) {
					got = append(got, h.ID)
				}
				if !slices.Equal(got, want) {
					w.Errorf("%q, oldest first %t, %d a page:\n got %q\nwant %q", text, oldest, size, got, want)
				}
			}
		}
	}
}

func pagingMeanwhile(w *world) {
	var docs []search.Doc
	for i := range 20 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	more := 100
	seen := map[string]bool{}
	for _, h := range w.walk(search.Query{Schema: w.schema.Name, Size: 6}, func() {
		d := w.doc(fmt.Sprint("later-", more), `{"at":"2027-01-01T00:00:00Z"}`)
		more++
		w.index(d, w.numbered(more%20))
	}) {
		if seen[h.ID] {
			w.Errorf("%s is there twice", h.ID)
		}
		seen[h.ID] = true
	}
	if len(seen) != 20 {
		w.Errorf("%d documents were seen, want the 20 that were there", len(seen))
	}
}

// pagesOf reads all pages on from the first.
func (w *world) pagesOf(q search.Query) (all []search.Page) {
	w.Helper()
	for {
		p, err := w.Store.Search(w.Context(), q)
		if err != nil || len(all) > 200 {
			w.Fatalf("page %d of %+v: %v", len(all), q, err)
		}
		all = append(all, p)
		if q.After = p.Next; p.Next == "" {
			return all
		}
	}
}

// inOrder are the ids of a page.
func inOrder(p search.Page) (all []string) {
	for _, h := range p.Hits {
		all = append(all, h.ID)
	}
	return all
}

func pagingBack(w *world) {
	var docs []search.Doc
	for i := range 60 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	for _, q := range []search.Query{{Size: 7}, {Size: 7, Oldest: true}, {Size: 5, Text: "number:1..2"}, {Size: 1, Text: "number:1", Oldest: true}, {Size: 60}} {
		q.Schema = w.schema.Name
		pages := w.pagesOf(q)
		for i := range pages {
			if (pages[i].Previous == "") != (i == 0) {
				w.Errorf("%+v: page %d has previous %q", q, i, pages[i].Previous)
			}
		}
		for at := len(pages) - 1; at > 0; at-- {
			q.After, q.Before = "", pages[at].Previous
			p, err := w.Store.Search(w.Context(), q)
			if err != nil || !slices.Equal(inOrder(p), inOrder(pages[at-1])) || (p.Previous == "") != (at == 1) || p.Total != 0 {
				w.Fatalf("%+v: before page %d are %q of %d, previous %q: %v; want %q", q, at, inOrder(p), p.Total, p.Previous, err, inOrder(pages[at-1]))
			}
			q.After, q.Before = p.Next, ""
			if p, err = w.Store.Search(w.Context(), q); err != nil || !slices.Equal(inOrder(p), inOrder(pages[at])) {
				w.Fatalf("%+v: after the page before page %d are %q: %v; want %q", q, at, inOrder(p), err, inOrder(pages[at]))
			}
		}
	}
}

func pagingBackMeanwhile(w *world) {
	var docs []search.Doc
	for i := range 20 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	q := search.Query{Schema: w.schema.Name, Size: 6}
	pages := w.pagesOf(q)
	want := map[string]int{}
	for _, p := range pages[:len(pages)-1] {
		for _, id := range inOrder(p) {
			want[id]++
		}
	}
	for i, before := 0, pages[len(pages)-1].Previous; before != ""; i++ {
		q.Before = before
		p, err := w.Store.Search(w.Context(), q)
		if err != nil || i > 20 {
			w.Fatalf("page %d back: %v", i, err)
		}
		for _, id := range inOrder(p) {
			want[id]--
		}
		before = p.Previous
		w.index(w.doc(fmt.Sprint("older-", i), `{"at":"2020-01-01T00:00:00Z"}`), w.numbered(i)) // where it was read already, and what is there
	}
	for id, n := range want {
		if n != 0 {
			w.Errorf("%s was there %d times more on the way on than on the way back", id, n)
		}
	}
}

func spans(w *world) {
	docs := []search.Doc{w.doc("never", `{"code":"x"}`)}
	for i := range 4 {
		docs = append(docs, w.doc(fmt.Sprint(i), fmt.Sprintf(`{"at":"2026-05-04T%02d:00:00Z","code":"x"}`, 10+i)))
	}
	w.index(docs...)
	hour := func(h int) time.Time { return time.Date(2026, 5, 4, h, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		from, to time.Time
		want     []string
	}{
		{hour(11), hour(13), []string{"1", "2"}},
		{hour(11), time.Time{}, []string{"1", "2", "3"}},
		{time.Time{}, hour(11), []string{"0"}},
		{hour(13), hour(11), []string{}},
	} {
		if got := ids(w.find(search.Query{Text: "code:x", From: c.from, To: c.to})); !slices.Equal(got, c.want) {
			w.Errorf("from %v to %v: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func totals(w *world) {
	var docs []search.Doc
	for i := range 50 {
		docs = append(docs, w.numbered(i))
	}
	w.index(docs...)
	q := search.Query{Schema: w.schema.Name, Text: "number:0..1", Size: 10}
	p, err := w.Store.Search(w.Context(), q)
	if err != nil || p.Total != 26 || len(p.Hits) != 10 {
		w.Fatalf("%d of %d: %v, want 10 of 26", len(p.Hits), p.Total, err)
	}
	q.After = p.Next
	if p, err = w.Store.Search(w.Context(), q); err != nil || p.Total != 0 || len(p.Hits) != 10 {
		w.Errorf("the next page has %d hits and total %d: %v", len(p.Hits), p.Total, err)
	}
	if p, err = w.Store.Search(w.Context(), search.Query{Schema: w.schema.Name, Text: "nothing"}); err != nil || p.Total != 0 || p.Next != "" || len(p.Hits) != 0 {
		w.Errorf("of nothing: %+v, %v", p, err)
	}
}
