package clickhousehttp

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

// database makes a database on the shared server.
func database(t testing.TB, c *Conn, name string) {
	t.Helper()
	if err := c.Exec(t.Context(), "CREATE DATABASE "+Name(name)); err != nil {
		t.Fatal(err)
	}
}

func TestServerMapsItsExceptions(t *testing.T) {
	raw, name := testenv.ClickHouse(t)
	c := open(t, raw, Options{})
	database(t, c, name)
	if err := c.Exec(t.Context(), "CREATE TABLE "+Name(name)+".t (n UInt8, CONSTRAINT few CHECK n < 9) ENGINE = MergeTree ORDER BY n"); err != nil {
		t.Fatal(err)
	}
	table := Name(name) + ".t"
	for _, k := range []struct {
		name, statement string
		args            []Arg
		code            int
		kind            tidemill.Kind
	}{
		{"unknown table", "SELECT * FROM " + Name(name) + ".nothing", nil, 60, tidemill.Transient},
		{"unknown database", "SELECT * FROM nowhere.nothing", nil, 81, tidemill.Transient},
		{"unknown column", "SELECT nothing FROM " + table, nil, 47, tidemill.Transient},
		{"no such column to insert into", "INSERT INTO " + table + " (x) SELECT 1", nil, 16, tidemill.Transient},
		{"syntax", "SELEC 1", nil, 62, tidemill.Transient},
		{"a text that is no number", "INSERT INTO " + table + " SELECT toUInt8('x')", nil, 6, tidemill.Validation},
		{"a value that breaks a constraint", "INSERT INTO " + table + " SELECT 10", nil, 469, tidemill.Validation},
		{"a parameter of a wrong type", "SELECT {n:UInt8}", []Arg{Param("n", "x")}, 457, tidemill.Transient},
		{"too slow", "SELECT sleepEachRow(0.1) FROM numbers(100) SETTINGS max_block_size = 1", []Arg{Set("max_execution_time", "0.2")}, 159, tidemill.Timeout},
		{"too much memory", "SELECT groupArray(number) FROM numbers(100000000)", []Arg{Set("max_memory_usage", "10000000")}, 241, tidemill.Transient},
	} {
		err := c.Exec(t.Context(), k.statement, k.args...)
		if Code(err) != k.code || tidemill.KindOf(err) != k.kind {
			t.Errorf("%s: code %d, kind %v, want %d, %v: %v", k.name, Code(err), tidemill.KindOf(err), k.code, k.kind, err)
		}
	}
	_, err := Open(t.Context(), raw, Options{Password: tidemill.NewSecret("wrong")})
	if Code(err) != 516 || tidemill.KindOf(err) != tidemill.Credentials {
		t.Errorf("wrong password: %v of kind %v", err, tidemill.KindOf(err))
	}
}

func TestServerTakesBlocksAndGivesThemBack(t *testing.T) {
	raw, name := testenv.ClickHouse(t)
	for _, compression := range []Compression{None, Gzip} {
		c := open(t, raw, Options{Compression: compression})
		table := Name(name) + "." + Name("t_"+string(compression))
		if compression == None {
			database(t, c, name)
		}
		if err := c.Exec(t.Context(), "CREATE TABLE "+table+" (n UInt64, s String) ENGINE = MergeTree ORDER BY n"); err != nil {
			t.Fatal(err)
		}
		var numbers proto.ColUInt64
		var texts proto.ColStr
		for i := range 10_000 {
			numbers.Append(uint64(i))
			texts.Append(strings.Repeat(string([]byte{byte(i), 0, '\'', '\\'}), i%50))
		}
		var b proto.Buffer
		columns := []proto.InputColumn{{Name: "n", Data: numbers}, {Name: "s", Data: texts}}
		if err := (proto.Block{Columns: 2, Rows: 10_000}).EncodeRawBlock(&b, 0, columns); err != nil {
			t.Fatal(err)
		}
		if err := c.Insert(t.Context(), "INSERT INTO "+table+" (n, s) FORMAT Native", b.Buf, Set("async_insert", "0")); err != nil {
			t.Fatal(err)
		}
		rows, err := c.Query(t.Context(), "SELECT n, s FROM "+table+" ORDER BY n")
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for rows.Next() {
			if n, s := rows.UInt64(), rows.String(); n != uint64(i) || s != texts.Row(i) {
				t.Fatalf("row %d is %d, %q", i, n, s)
			}
			i++
		}
		rows.Close()
		if rows.Err() != nil || i != 10_000 {
			t.Fatalf("%d rows, %v", i, rows.Err())
		}
		if err := c.Insert(t.Context(), "INSERT INTO "+table+" (n, s) FORMAT Native", b.Buf[:len(b.Buf)/2]); err == nil || tidemill.KindOf(err) != tidemill.Transient {
			t.Errorf("half a block: %v of kind %v, want transient", err, tidemill.KindOf(err))
		}
	}
}

func TestServerTakesParametersAsTheyAre(t *testing.T) {
	raw, _ := testenv.ClickHouse(t)
	c := open(t, raw, Options{})
	for _, v := range []string{"", "a", `'"\`, "`", `\N`, "\\", "a\tb\nc\rd\x00e", "{x:String}", "'; DROP TABLE t --", "日本", "a&b=c%20+d"} {
		for name, arg := range map[string]Arg{"{v:String}": Param("v", v), "unhex({v:String})": HexParam("v", v)} {
			rows, err := c.Query(t.Context(), "SELECT "+name, arg)
			if err != nil {
				t.Errorf("%q as %s: %v", v, name, err)
				continue
			}
			if got := ""; rows.Next() {
				if got = rows.String(); got != v {
					t.Errorf("%q as %s came back as %q", v, name, got)
				}
			}
			rows.Close()
		}
	}
	rows, err := c.Query(t.Context(), "SELECT unhex({v:String})", HexParam("v", "a\xff\x00b"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() || rows.String() != "a\xff\x00b" {
		t.Error("bytes that are no UTF-8 do not come back")
	}
}

func TestServerBehindATLSFront(t *testing.T) {
	raw, _ := testenv.ClickHouse(t)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	front := secure(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }})
	roots := x509.NewCertPool()
	if _, err := Open(t.Context(), front.URL, Options{TLS: &tls.Config{RootCAs: roots}}); err == nil {
		t.Error("a strange CA is trusted")
	}
	roots.AddCert(front.Certificate())
	c := open(t, front.URL, Options{TLS: &tls.Config{RootCAs: roots}})
	for _, f := range Inspect(t.Context(), c) {
		t.Logf("%s: %s: %s %s", f.Verdict, f.Check, f.Detail, f.Advice)
		if f.Verdict != preflight.OK && !strings.Contains(f.Check, "disk") {
			t.Errorf("%s is %s", f.Check, f.Verdict)
		}
	}
}

func TestVersionsAreJudged(t *testing.T) {
	for v, want := range map[string]string{"26.9.2.1": "ok", "24.8.1": "ok", "24.3.5.46": "warn", "23.12": "warn", "21.8.1": "fail", "18.16.1": "fail", "": "warn", "head": "warn"} {
		if got := ofVersion(v).Verdict; got != want {
			t.Errorf("version %q is %s, want %s", v, got, want)
		}
	}
}
