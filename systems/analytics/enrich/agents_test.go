package enrich

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ua-parser/uap-go/uaparser"
)

func newAgents(t testing.TB, o AgentsOptions) *Agents {
	t.Helper()
	a, err := NewAgents(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRealAgents(t *testing.T) {
	a := newAgents(t, AgentsOptions{})
	for _, c := range realAgents {
		for _, when := range []string{"first", "from the cache"} {
			if got := a.Parse(c.ua); got != c.want {
				t.Errorf("Parse(%q), %s:\n got %q\nwant %q", c.ua, when, got, c.want)
			}
		}
	}
}

func TestLongStringsAreNotLookedAt(t *testing.T) {
	a := newAgents(t, AgentsOptions{})
	chrome := realAgents[0].ua
	if got := a.Parse(chrome + strings.Repeat(" ", 2048-len(chrome))); got.Browser != "Chrome" {
		t.Errorf("2,048 bytes: got %q, want Chrome", got)
	}
	if got := a.Parse(chrome + strings.Repeat(" ", 2049-len(chrome))); got != (Agent{}) {
		t.Errorf("2,049 bytes: got %q, want nothing", got)
	}
	if n := a.seen.Len(); n != 1 {
		t.Errorf("%d strings remembered, want 1: the long one must not be kept", n)
	}
}

func TestVersionsFitTheirColumns(t *testing.T) {
	a := newAgents(t, AgentsOptions{})
	digits := strings.Repeat("1234567890", 20)
	for _, form := range []string{
		"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%s Safari/537.36",
		"Mozilla/5.0 (X11; CrOS x86_64 %s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1 Safari/537.36",
		"Mozilla/5.0 (Linux; Android %s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1 Mobile Safari/537.36",
		"Mozilla/5.0 (Windows NT 10.0; rv:1.0) Gecko/20100101 Firefox/%s",
	} {
		if got := a.Parse(fmt.Sprintf(form, digits+"."+digits)); len(got.BrowserVersion) > 50 || len(got.OSVersion) > 50 {
			t.Errorf("%s: got %q, want versions of at most 50 bytes", form, got)
		}
	}
}

func TestParseDoesNotKeepTheCallersMemory(t *testing.T) {
	a := newAgents(t, AgentsOptions{})
	first := realAgents[0]
	reused := []byte(first.ua)
	got := a.Parse(unsafe.String(&reused[0], len(reused)))
	clear(reused)
	if got != first.want || a.Parse(first.ua) != first.want || a.seen.Len() != 1 {
		t.Errorf("Parse = %q, remembered %q, want %q", got, a.seen.Keys(), first.want)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	a := newAgents(t, AgentsOptions{Size: 10})
	for i := range 100 {
		if got := a.Parse(fmt.Sprintf("curl/8.%d", i)); got.Browser != "curl" {
			t.Fatalf("curl: got %q", got)
		}
	}
	if n := a.seen.Len(); n != 10 {
		t.Errorf("%d strings remembered, want 10", n)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []AgentsOptions{{Size: -1}, {MaxLen: -1}} {
		if _, err := NewAgents(o); err == nil {
			t.Errorf("NewAgents(%+v) took it, want an error", o)
		}
	}
}

func TestParseFromManyGoroutines(t *testing.T) {
	a := newAgents(t, AgentsOptions{Size: 20}) // smaller than the table: entries come and go
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, c := range realAgents[:30] {
				if got := a.Parse(c.ua); got != c.want {
					t.Errorf("Parse(%q): got %q, want %q", c.ua, got, c.want)
				}
			}
		})
	}
	wg.Wait()
}

// TestNeedsLoseNoMatch compares the rules behind their literal filter with uap-go's own
// loop over all of them.
func TestNeedsLoseNoMatch(t *testing.T) {
	a := newAgents(t, AgentsOptions{})
	all, err := uaparser.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range realAgents {
		for _, ua := range []string{c.ua, strings.ToLower(c.ua), strings.ToUpper(c.ua), c.ua + " ünï"} {
			sameAsUAP(t, a, all, ua)
		}
	}
	filtered := 0
	for _, r := range a.rules.browsers {
		if r.needs != nil {
			filtered++
		}
	}
	if n := len(a.rules.browsers); filtered*10 < n*9 {
		t.Errorf("only %d of %d browser rules have a filter: parsing will be slow", filtered, n)
	}
}

func TestNeedsOfExpressions(t *testing.T) {
	for _, c := range []struct {
		flags, expr string
		want        string // the texts, with | between them
	}{
		{"", `(Chrome)/(\d+)`, "chrome/"},
		{"", `Version/\d+.{0,9} Safari`, "version/"},
		{"", `(?:Ant-|)Nutch`, "ant-nutch|nutch"},
		{"", `W(?:IRE|hatWeb)\d*`, "wire|whatweb"},
		{"", `[Bb]ot/`, "bot/"},
		{"", `\d+|abc`, ""},
		{"", `(?:abc)?\d`, ""},
		{"", `(?:abc){0,2}\d`, ""},
		{"", `(?:abc){1,2}\d`, "abc"},
		{"", `a\d`, ""},
		{"i", `Chrome`, "chrome"},
		{"i", `Kelvin`, ""}, // matches "\u212aelvin"
	} {
		needs, err := needsOf(c.flags, c.expr)
		if got := strings.Join(needs, "|"); err != nil || got != c.want {
			t.Errorf("needsOf(%q, %q) = %q, %v, want %q", c.flags, c.expr, got, err, c.want)
		}
	}
	if _, err := needsOf("", "("); err == nil {
		t.Error("needsOf took a faulty expression")
	}
}

func sameAsUAP(t *testing.T, a *Agents, all *uaparser.Parser, ua string) {
	t.Helper()
	l := newLine(ua)
	browser, system := a.rules.userAgent(l), a.rules.operatingSystem(l)
	browser.Family, system.Family = cmp.Or(browser.Family, "Other"), cmp.Or(system.Family, "Other")
	if want := *all.ParseUserAgent(ua); browser != want {
		t.Errorf("browser of %q: got %+v, want %+v", ua, browser, want)
	}
	if want := *all.ParseOs(ua); system != want {
		t.Errorf("system of %q: got %+v, want %+v", ua, system, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range realAgents {
		f.Add(c.ua)
	}
	f.Add("\xff\xfe (iPhone; \x00) Version/..... Chrome/")
	f.Add("K Chrome/1 İ playstation ")
	a := newAgents(f, AgentsOptions{Size: 100})
	all, err := uaparser.New(uaparser.WithCacheSize(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, ua string) {
		got := a.Parse(ua)
		if again := a.Parse(ua); again != got {
			t.Errorf("Parse(%q) = %q, then %q", ua, got, again)
		}
		if len(got.BrowserVersion) > 50 || len(got.OSVersion) > 50 {
			t.Errorf("Parse(%q) = %q: version longer than its column", ua, got)
		}
		if len(ua) < 512 {
			sameAsUAP(t, a, all, ua)
		}
	})
}

func BenchmarkParseSeen(b *testing.B) {
	a := newAgents(b, AgentsOptions{})
	for _, c := range realAgents {
		a.Parse(c.ua)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.Parse(realAgents[i].ua)
		if i++; i == len(realAgents) {
			i = 0
		}
	}
}

func BenchmarkParseSeenParallel(b *testing.B) {
	a := newAgents(b, AgentsOptions{})
	ua := realAgents[0].ua
	a.Parse(ua)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Parse(ua)
		}
	})
}

func BenchmarkParseNew(b *testing.B) {
	a := newAgents(b, AgentsOptions{})
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a.read(realAgents[i].ua)
		if i++; i == len(realAgents) {
			i = 0
		}
	}
}

func BenchmarkNewAgents(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newAgents(b, AgentsOptions{})
	}
}
