package enrich

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

var buildTime = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// record makes what a database has about one network.
type record func(country string) mmdbtype.DataType

func maxmindRecord(country string) mmdbtype.DataType {
	return mmdbtype.Map{
		"continent": mmdbtype.Map{"code": mmdbtype.String("EU")},
		"country":   mmdbtype.Map{"iso_code": mmdbtype.String(country), "names": mmdbtype.Map{"en": mmdbtype.String("Somewhere")}},
	}
}

// buildDatabase writes an MMDB database of networks and their countries.
func buildDatabase(t testing.TB, rec record, countries map[string]string) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{
		DatabaseType: "Test-Country", RecordSize: 24, BuildEpoch: buildTime.Unix(), IncludeReservedNetworks: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for network, country := range countries {
		_, n, err := net.ParseCIDR(network)
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Insert(n, rec(country)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var testCountries = map[string]string{
	"81.2.69.0/24": "GB", "89.160.20.0/24": "SE", "2001:218::/32": "JP", "5.6.7.0/24": "not a country", "6.0.0.0/8": "us",
	"127.0.0.0/8": "XX", "10.0.0.0/8": "XX", "192.168.0.0/16": "XX", "169.254.0.0/16": "XX", "fc00::/7": "XX", "fe80::/10": "XX", "224.0.0.0/4": "XX",
}

func testDatabase(t testing.TB) []byte { return buildDatabase(t, maxmindRecord, testCountries) }

// oneCountry is a database that puts 81.2.69.0/24 there.
func oneCountry(t testing.TB, country string) []byte {
	return buildDatabase(t, maxmindRecord, map[string]string{"81.2.69.0/24": country})
}

const known = "81.2.69.142" // an address in every database of these tests

// replace puts a file in its place atomically.
func replace(t testing.TB, path string, data []byte, mtime time.Time) {
	t.Helper()
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(tmp, mtime, mtime); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

func wantCountry(t testing.TB, g *Geo, want string) {
	t.Helper()
	if got := g.Country(known); got != want {
		t.Errorf("Country(%s) = %q, want %q", known, got, want)
	}
}

func TestCountry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	replace(t, path, testDatabase(t), time.Now())
	g := NewGeo(GeoOptions{File: path})
	for _, c := range []struct{ what, ip, want string }{
		{"IPv4", "81.2.69.142", "GB"},
		{"IPv4 again", "89.160.20.112", "SE"},
		{"IPv6", "2001:218::1", "JP"},
		{"IPv4 in IPv6", "::ffff:81.2.69.142", "GB"},
		{"an IPv6 zone on a global address", "2001:218::1%eth0", "JP"},
		{"not in the database", "9.9.9.9", ""},
		{"what the database has is no country", "5.6.7.8", ""},
		{"nor is lower case", "6.6.6.6", ""},
		{"loopback", "127.0.0.1", ""},
		{"loopback in IPv6", "::1", ""},
		{"loopback as IPv4 in IPv6", "::ffff:127.0.0.1", ""},
		{"private", "10.1.2.3", ""},
		{"private again", "192.168.1.1", ""},
		{"private in IPv6", "fd00::1", ""},
		{"private as IPv4 in IPv6", "::ffff:10.1.2.3", ""},
		{"link-local", "169.254.169.254", ""},
		{"link-local in IPv6", "fe80::1", ""},
		{"multicast", "224.0.0.1", ""},
		{"unspecified", "0.0.0.0", ""},
		{"empty", "", ""},
		{"no address", "example.com", ""},
		{"an address with a port", "81.2.69.142:443", ""},
		{"junk", "\xff\x00", ""},
		{"much junk", strings.Repeat("1.", 100_000), ""},
	} {
		if got := g.Country(c.ip); got != c.want {
			t.Errorf("%s: Country(%.40q) = %q, want %q", c.what, c.ip, got, c.want)
		}
	}
}

func TestOtherMakersOfDatabases(t *testing.T) {
	for name, rec := range map[string]record{
		"MaxMind": maxmindRecord,
		"IPinfo": func(c string) mmdbtype.DataType {
			return mmdbtype.Map{"country": mmdbtype.String("United Kingdom"), "country_code": mmdbtype.String(c)}
		},
		"IPinfo of old": func(c string) mmdbtype.DataType { return mmdbtype.Map{"country": mmdbtype.String(c)} },
	} {
		path := filepath.Join(t.TempDir(), "geo.mmdb")
		replace(t, path, buildDatabase(t, rec, map[string]string{"81.2.69.0/24": "GB"}), time.Now())
		if got := NewGeo(GeoOptions{File: path}).Country(known); got != "GB" {
			t.Errorf("%s: Country = %q, want GB", name, got)
		}
	}
}

func TestDatabaseOfIPv4Only(t *testing.T) {
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test-Country", IPVersion: 4, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	_, network, _ := net.ParseCIDR("81.2.69.0/24")
	if err := tree.Insert(network, maxmindRecord("GB")); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	replace(t, path, b.Bytes(), time.Now())
	g := NewGeo(GeoOptions{File: path})
	for ip, want := range map[string]string{known: "GB", "::ffff:" + known: "GB", "2001:218::1": ""} {
		if got := g.Country(ip); got != want {
			t.Errorf("Country(%s) = %q, want %q", ip, got, want)
		}
	}
}

func TestWithoutADatabaseCountriesAreEmpty(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage.mmdb")
	replace(t, garbage, []byte("<html>not found</html>"), time.Now())
	noCountries := filepath.Join(dir, "asn.mmdb")
	replace(t, noCountries, buildDatabase(t, func(string) mmdbtype.DataType {
		return mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(64500)}
	}, map[string]string{"81.2.69.0/24": ""}), time.Now())
	whole := testDatabase(t)
	half := filepath.Join(dir, "half.mmdb")
	replace(t, half, whole[:len(whole)/2], time.Now())
	large := filepath.Join(dir, "large.mmdb")
	replace(t, large, whole, time.Now())
	for _, c := range []struct {
		what string
		opts GeoOptions
		err  string // part of it; empty: none is expected
	}{
		{"nothing is configured", GeoOptions{}, ""},
		{"the file is not there", GeoOptions{File: filepath.Join(dir, "none.mmdb")}, "no such file"},
		{"the file is a folder", GeoOptions{File: dir}, "is a directory"},
		{"the file is garbage", GeoOptions{File: garbage}, "no MMDB database"},
		{"the file is cut short", GeoOptions{File: half}, "no MMDB database"},
		{"the database has no countries", GeoOptions{File: noCountries}, "have no country"},
		{"the file is too large", GeoOptions{File: large, MaxBytes: 100}, "larger than allowed"},
		{"the URL is none", GeoOptions{URL: "geo.example/db.mmdb?key=hunter2"}, "the URL is none"},
		{"the URL has another scheme", GeoOptions{URL: "ftp://geo.example/db.mmdb"}, "the URL is none"},
		{"the URL cannot be read", GeoOptions{URL: "http://user:hunter2@[::1/db.mmdb"}, "the URL is none"},
		{"an option is nonsense", GeoOptions{File: large, MaxAge: -1}, "must not be negative"},
	} {
		g := NewGeo(c.opts)
		wantCountry(t, g, "")
		if s := g.Status(); s.Loaded() || s.Stale {
			t.Errorf("%s: Status = %+v, want none in use", c.what, s)
		} else if got := s.Err != nil; got != (c.err != "") {
			t.Errorf("%s: Status().Err = %v", c.what, s.Err)
		}
		err := g.Refresh(t.Context())
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: Refresh = %v, want %q", c.what, err, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Refresh shows a key: %v", c.what, err)
		}
		wantCountry(t, g, "")
	}
}

func TestFileIsReloadedWhenItChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	now := time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC)
	clock := now
	g := NewGeo(GeoOptions{File: path, Now: func() time.Time { return clock }})
	refresh := func(wantErr bool) {
		t.Helper()
		if err := g.Refresh(t.Context()); (err != nil) != wantErr {
			t.Errorf("Refresh = %v, want an error: %v", err, wantErr)
		}
	}
	refresh(true)
	wantCountry(t, g, "")

	replace(t, path, oneCountry(t, "GB"), now)
	refresh(false)
	wantCountry(t, g, "GB")
	first := g.db.Load()
	refresh(false)
	if g.db.Load() != first {
		t.Error("a file that did not change was loaded again")
	}

	replace(t, path, oneCountry(t, "FR"), now.Add(time.Second)) // the same size
	refresh(false)
	wantCountry(t, g, "FR")

	replace(t, path, []byte("half written"), now.Add(2*time.Second))
	refresh(true)
	wantCountry(t, g, "FR")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refresh(true)
	wantCountry(t, g, "FR")
	if s := g.Status(); s.Err == nil || !s.Loaded() {
		t.Errorf("Status = %+v, want the error and the database in use", s)
	}

	replace(t, path, oneCountry(t, "DE"), now.Add(3*time.Second))
	refresh(false)
	wantCountry(t, g, "DE")

	clock = now.Add(31 * 24 * time.Hour)
	want := GeoStatus{Source: path, Type: "Test-Country", Built: buildTime, Since: now.Add(3 * time.Second),
		Age: 31*24*time.Hour - 3*time.Second, Stale: true}
	got := g.Status()
	got.Since = got.Since.UTC()
	if got != want {
		t.Errorf("Status = %+v, want %+v", got, want)
	}
}

func TestReloadWhileLookupsRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	start := time.Now()
	versions := [][]byte{oneCountry(t, "GB"), oneCountry(t, "FR"), []byte("broken")}
	replace(t, path, versions[0], start)
	g := NewGeo(GeoOptions{File: path})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if got := g.Country(known); got != "GB" && got != "FR" {
					t.Errorf("Country = %q, want GB or FR", got)
					return
				}
				g.Status()
			}
		})
	}
	for i := range 200 {
		replace(t, path, versions[i%3], start.Add(time.Duration(i)*time.Second))
		if err := g.Refresh(t.Context()); (err != nil) != (i%3 == 2) {
			t.Errorf("Refresh %d = %v", i, err)
		}
	}
	close(done)
	wg.Wait()
}

// FuzzDatabase looks addresses up in damaged databases: it may refuse them or know nothing, but
// must neither panic nor hang.
func FuzzDatabase(f *testing.F) {
	f.Add(testDatabase(f))
	f.Add(buildDatabase(f, maxmindRecord, map[string]string{"0.0.0.0/0": "GB"}))
	whole := oneCountry(f, "GB")
	f.Add(whole)
	for i := 0; i < len(whole); i += 7 {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0xff
		f.Add(damaged)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := os.CreateTemp(dir, "*.mmdb")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(file.Name())
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := openDatabase(file.Name(), 1<<20)
		if err != nil {
			return
		}
		for _, ip := range []string{known, "0.0.0.1", "255.255.255.254", "2001:218::1", "8000::1", "::1:0:0"} {
			if got := db.country(ip); got != "" && !isCountry(got) {
				t.Errorf("Country(%s) = %q", ip, got)
			}
		}
	})
}

// worldDatabase has a country for each of 60,000 networks.
func worldDatabase(b testing.TB) []byte {
	countries := map[string]string{}
	for i := range 60_000 {
		ip := netip.AddrFrom4([4]byte{byte(11 + i>>8%100), byte(i), byte(i >> 3), 0})
		countries[netip.PrefixFrom(ip, 24).String()] = string([]byte{byte('A' + i%26), byte('A' + i/26%26)})
	}
	return buildDatabase(b, maxmindRecord, countries)
}

func BenchmarkCountry(b *testing.B) {
	path := filepath.Join(b.TempDir(), "geo.mmdb")
	replace(b, path, worldDatabase(b), time.Now())
	g := NewGeo(GeoOptions{File: path})
	var ips []string
	for i := range 4096 {
		ips = append(ips, netip.AddrFrom4([4]byte{byte(11 + i>>8%100), byte(i), byte(i >> 3), 7}).String())
	}
	if g.Country(ips[5]) == "" {
		b.Fatal("no country for ", ips[5])
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		g.Country(ips[i&4095])
		i++
	}
}

func BenchmarkOpenDatabase(b *testing.B) {
	path := filepath.Join(b.TempDir(), "geo.mmdb")
	data := worldDatabase(b)
	replace(b, path, data, time.Now())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openDatabase(path, 1<<30); err != nil {
			b.Fatal(err)
		}
	}
}
