package analyticstest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/enrich"
)

var enriching = []promise{
	{name: "A6 a user agent says what the SDK did not", reason: "many SDKs send nothing else", holds: userAgents},
	{name: "A6 what the SDK says wins", reason: "it knows the device, the string is a guess", holds: sdkWins},
	{name: "A6 a bot or tool is told by its name and device", reason: "they are no visitors", holds: bots},
	{name: "A7 an address has its country, and loopback has none", reason: "reports by country are what the database is for", holds: countries},
	{name: "A7 without a database there are no countries, and events go on", reason: "enrichment never blocks events", holds: noDatabase},
	{name: "A7 a new database is taken without a restart", reason: "addresses move", holds: newDatabase},
}

const safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Mobile/15E148 Safari/604.1"

func (b *bench) agents() func(*analytics.Parts) {
	a, err := enrich.NewAgents(enrich.AgentsOptions{})
	b.must(err)
	return func(p *analytics.Parts) { p.Agent = a.Parse }
}

func userAgents(b *bench) {
	b.put(entry("phone", "u", "user_agent", safari), entry("none", "u"), entry("junk", "u", "user_agent", "\x00\xff"),
		entry("system only", "u", "user_agent", safari, "browser", "Webview", "browser_version", "1"))
	b.processWith(options(), b.agents())
	b.wantBooks(4, 0, 0)
	if e := b.one("phone"); e.Browser != "Mobile Safari" || e.OS != "iOS" || e.OSVersion == "" || e.BrowserVersion == "" || e.DeviceType != "mobile" || e.UserAgent != safari {
		b.Errorf("from an iPhone's string came %q %q on %q %q, %q", e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.DeviceType)
	}
	for _, name := range []string{"none", "junk"} {
		if e := b.one(name); e.Browser+e.OS+e.DeviceType != "" {
			b.Errorf("%s: from no string came %q on %q, %q", name, e.Browser, e.OS, e.DeviceType)
		}
	}
	if e := b.one("system only"); e.Browser != "Webview" || e.BrowserVersion != "1" || e.OS != "iOS" || e.DeviceType != "mobile" {
		b.Errorf("beside the SDK's browser %q %q the string says %q and %q; want iOS and mobile", e.Browser, e.BrowserVersion, e.OS, e.DeviceType)
	}
}

func sdkWins(b *bench) {
	b.put(entry("all", "u", "user_agent", safari, "browser", "Firefox", "browser_version", "99", "os", "Windows", "os_version", "11", "device_type", "desktop"),
		entry("no version", "u", "user_agent", safari, "browser", "Firefox", "os", "Windows", "device_type", "desktop"),
		entry("same names", "u", "user_agent", safari, "browser", "Mobile Safari", "os", "iOS", "device_type", "mobile"),
		entry("version alone", "u", "user_agent", safari, "browser_version", "7", "os_version", "3"))
	b.processWith(options(), b.agents())
	if e := b.one("all"); e.Browser != "Firefox" || e.BrowserVersion != "99" || e.OS != "Windows" || e.OSVersion != "11" || e.DeviceType != "desktop" {
		b.Errorf("of what the SDK said became %q %q, %q %q, %q", e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.DeviceType)
	}
	if e := b.one("no version"); e.BrowserVersion != "" || e.OSVersion != "" {
		b.Errorf("Firefox has the version %q of another browser, Windows %q of another system", e.BrowserVersion, e.OSVersion)
	}
	if e := b.one("same names"); e.BrowserVersion != "17.4" || e.OSVersion != "17.4" {
		b.Errorf("names without versions, which are those of the string, have the versions %q and %q; want the string's", e.BrowserVersion, e.OSVersion)
	}
	if e := b.one("version alone"); e.BrowserVersion != "7" || e.OSVersion != "3" {
		b.Errorf("the versions that the SDK sent became %q and %q", e.BrowserVersion, e.OSVersion)
	}
}

func bots(b *bench) {
	b.put(entry("crawled", "u", "user_agent", "Mozilla/5.0 (Linux; Android 6.0.1) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"),
		entry("fetched", "u", "user_agent", "curl/8.5.0"))
	b.processWith(options(), b.agents())
	if e := b.one("crawled"); e.Browser != "Googlebot" || e.BrowserVersion != "2.1" || e.DeviceType != "bot" {
		b.Errorf("a crawler is %q %q on %q", e.Browser, e.BrowserVersion, e.DeviceType)
	}
	if e := b.one("fetched"); e.Browser != "curl" || e.BrowserVersion != "8.5.0" || e.DeviceType != "bot" {
		b.Errorf("a tool is %q %q on %q", e.Browser, e.BrowserVersion, e.DeviceType)
	}
}

// database writes a database of countries into a file, atomically.
func (b *bench) database(path, country string, written time.Time) {
	b.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-Country", RecordSize: 24, IncludeReservedNetworks: true})
	b.must(err)
	for network, code := range map[string]string{"81.2.69.0/24": country, "2001:218::/32": "JP", "127.0.0.0/8": "XX", "10.0.0.0/8": "XX"} {
		_, n, err := net.ParseCIDR(network)
		b.must(err)
		b.must(tree.Insert(n, mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String(code)}}))
	}
	var data bytes.Buffer
	_, err = tree.WriteTo(&data)
	b.must(err)
	b.must(os.WriteFile(path+".new", data.Bytes(), 0o600))
	b.must(os.Chtimes(path+".new", written, written))
	b.must(os.Rename(path+".new", path))
}

func countries(b *bench) {
	path := filepath.Join(b.TempDir(), "countries.mmdb")
	b.database(path, "GB", noon)
	geo := enrich.NewGeo(enrich.GeoOptions{File: path})
	want := map[string]string{"81.2.69.142": "GB", "2001:218::1": "JP", "127.0.0.1": "", "::1": "", "10.1.2.3": "", "9.9.9.9": "", "junk": "", "": ""}
	for ip := range want {
		b.put(entry("from "+ip, "u", "ip", ip))
	}
	b.put(entry("disabled", "u", "ip", "81.2.69.142", "properties", `{"$geoip_disable":true}`))
	b.processWith(options(), func(p *analytics.Parts) { p.Country = geo.Country })
	for ip, country := range want {
		if e := b.one("from " + ip); e.Country != country || e.Region != "" || e.City != "" {
			b.Errorf("%s is in %q %q %q, want %q", ip, e.Country, e.Region, e.City, country)
		}
	}
	if e := b.one("disabled"); e.Country != "" || e.IP != "81.2.69.142" {
		b.Errorf("with $geoip_disable the country is %q", e.Country)
	}
}

func noDatabase(b *bench) {
	geo := enrich.NewGeo(enrich.GeoOptions{File: filepath.Join(b.TempDir(), "missing.mmdb")})
	b.put(entry("e", "u", "ip", "81.2.69.142"))
	b.processWith(options(), func(p *analytics.Parts) { p.Country = geo.Country })
	if e := b.one("e"); e.Country != "" {
		b.Errorf("the country is %q without a database", e.Country)
	}
}

func newDatabase(b *bench) {
	path := filepath.Join(b.TempDir(), "countries.mmdb")
	b.database(path, "GB", noon)
	geo := enrich.NewGeo(enrich.GeoOptions{File: path})
	s := b.start(options(), func(p *analytics.Parts) { p.Country = geo.Country })
	b.put(entry("before", "u", "ip", "81.2.69.142"))
	b.drained()
	b.database(path, "FR", noon.Add(time.Hour))
	b.must(geo.Refresh(b.Context()))
	b.put(entry("after", "u", "ip", "81.2.69.142"))
	b.drained()
	s.stop()
	if before, after := b.one("before").Country, b.one("after").Country; before != "GB" || after != "FR" {
		b.Errorf("the country was %q before the new database and %q after it", before, after)
	}
}
