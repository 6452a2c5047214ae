package sqlitesearch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems/windows/search"
)

// events makes documents of about 1.2 kB, a thousand of a day.
func events(from, n int) (docs []search.Doc) {
	for i := from; i < from+n; i++ {
		at := fmt.Sprintf("2025-03-%02dT00:00:00Z", 1+i/1000%28)
		docs = append(docs, event(fmt.Sprint(i), at, fmt.Sprintf(`,"actor1Code":"USAGOV","actor1CountryCode":"USA","actor2Name":"word%d","eventCode":"%d","quadClass":%d,"goldsteinScale":%d.5,"avgTone":-%d.25,"numMentions":%d,`+
			`"actionGeoFullName":"Paris, France","actionGeoCountryCode":"FR","actionGeoFeatureId":"-1456928","sourceUrl":"https://example.com/%s","actor1GeoFullName":"Washington, District of Columbia, United States"`,
			i%5000, i%300, i%4, i%10, i%7, i%50, strings.Repeat("path/", 120))))
	}
	return docs
}

func BenchmarkIndex(b *testing.B) {
	s := store(b, open(b), Options{}, search.Events())
	n := 0
	for b.Loop() {
		b.StopTimer()
		docs := events(n, 1000)
		b.StartTimer()
		mustIndex(b, s, docs...)
		n += len(docs)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "docs/s")
}

func BenchmarkSearch(b *testing.B) {
	s := store(b, open(b), Options{}, search.Events())
	for i := range 20 {
		mustIndex(b, s, events(1000*i, 1000)...)
	}
	for _, text := range []string{"", "united", "word77", "nothing", "united eventCode:17 -quadClass:0", "avgTone:<-100"} {
		b.Run("q="+text, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(b.Context(), search.Query{Schema: "gdelt-events", Text: text}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
