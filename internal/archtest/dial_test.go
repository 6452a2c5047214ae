package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/internal/gofiles"
)

// dials are what makes clients and connections, by import path. Everything else that does is a
// driver, which only its own packages may import. A name with a star before it is allowed
// behind a pointer, as a pointer makes nothing.
var dials = map[string][]string{
	"net/http":          {"*Client", "*Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"},
	"net/http/httputil": {"*ReverseProxy", "NewSingleHostReverseProxy", "NewClientConn", "NewProxyClientConn"},
	"net":               {"*Dialer", "Dial", "DialTimeout", "DialTCP", "DialUDP", "DialIP", "DialUnix"},
	"crypto/tls":        {"*Dialer", "Dial", "DialWithDialer", "Client"},
	"net/rpc":           {"*"},
	"net/rpc/jsonrpc":   {"*"},
	"net/smtp":          {"*"},
	"log/syslog":        {"*"},

	"golang.org/x/net/http2":     {"*Transport"},
	"golang.org/x/net/proxy":     {"*"},
	"golang.org/x/net/websocket": {"*"},
	"github.com/coder/websocket": {"Dial"},
}

// mayDial are the files that may make clients and connections, and why. Before you add one,
// check whether others choose the address: then use httpguard.
var mayDial = map[string]string{
	"internal/httpguard/httpguard.go":           "addresses that others choose: each is judged where it is connected to",
	"internal/httpguard/follow.go":              "the same, with redirects, each of which the guard judges",
	"internal/clickhousehttp/clickhousehttp.go": "the operator's own server; no redirect and no proxy is used",
	"internal/opensearchhttp/opensearchhttp.go": "the operator's own server; no redirect and no proxy is used",
	"internal/redisconn/redisconn.go":           "the operator's own server, and those that its Sentinels name",
	"internal/redisconn/url.go":                 "the operator's own server, and those that its Sentinels name",
	"internal/mqttconn/options.go":              "the operator's own broker",
	"internal/mqttconn/connect.go":              "TLS on a connection to the operator's own broker",
	"internal/telemetry/heard.go":               "the operator's own collector; no redirect is followed",
	"serve/access/provider/provider.go":         "providers that the operator names, over TLS; no redirect is followed",
	"cli/command/client.go":                     "the API of an instance that the operator names; no redirect is followed",
	"serve/api/operation/inprocess.go":          "an API in the same process: nothing is connected to",
	"cli/command/remote.go":                     "an instance in the same process: nothing is connected to",
}

// notProduct reports whether a folder is not part of the product.
func notProduct(rel string) bool {
	top, _, _ := strings.Cut(rel, "/")
	return slices.Contains([]string{"test", "bench", "scripts"}, top) || tests(rel) || rel == "internal/testenv"
}

// dialing finds the uses in a file of things that make clients and connections, as "line:
// net.Dial".
func dialing(name string, src any) ([]string, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	tell := func(at token.Pos, what string) { found = append(found, strconv.Itoa(set.Position(at).Line)+": "+what) }
	of := map[string]string{} // local names of imports
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		names, ok := dials[path]
		switch {
		case !ok:
		case names[0] == "*":
			tell(i.Pos(), path)
		case i.Name == nil:
			of[path[strings.LastIndexByte(path, '/')+1:]] = path
		case i.Name.Name == ".":
			tell(i.Pos(), ". "+path)
		default:
			of[i.Name.Name] = path
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		pointer := false
		if p, ok := n.(*ast.StarExpr); ok {
			n, pointer = p.X, true
		}
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if !ok {
			return true
		}
		for _, name := range dials[of[x.Name]] {
			bare, isType := strings.CutPrefix(name, "*")
			if bare == s.Sel.Name && !(isType && pointer) {
				tell(s.Pos(), of[x.Name]+"."+bare)
			}
		}
		return !pointer // else it would be found again, without its pointer
	})
	return found, nil
}

// A connection to an address of its own making could be led to the inner network, or through an
// unwanted proxy: see docs/security.md.
func TestClientsAreMadeInTheirRoomsOnly(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := gofiles.Walk(root, notProduct, func(rel, path string) error {
		found, err := dialing(path, nil)
		if err != nil {
			return err
		}
		seen[rel] = len(found) > 0
		if mayDial[rel] == "" {
			for _, what := range found {
				t.Errorf("%s:%s: clients and connections are made by internal/httpguard, and where mayDial says why", rel, what)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for rel := range mayDial {
		if !seen[rel] {
			t.Errorf("%s may connect, and does not: take it out of mayDial", rel)
		}
	}
}

func TestWaysToConnectAreSeen(t *testing.T) {
	for _, c := range []struct {
		code string
		want string // empty: nothing is made
	}{
		{`import "net/http"; var a = http.Client{}`, "net/http.Client"},
		{`import "net/http"; var a = &http.Client{}`, "net/http.Client"},
		{`import "net/http"; var a = new(http.Client)`, "net/http.Client"},
		{`import "net/http"; type a struct { c http.Client }`, "net/http.Client"},
		{`import "net/http"; type a struct { http.Client }`, "net/http.Client"},
		{`import "net/http"; type a = http.Client`, "net/http.Client"},
		{`import "net/http"; var a = http.DefaultClient.Do`, "net/http.DefaultClient"},
		{`import "net/http"; var a, b = http.Get("")`, "net/http.Get"},
		{`import "net/http"; var a = http.PostForm`, "net/http.PostForm"},
		{`import "net/http"; var a http.RoundTripper = &http.Transport{}`, "net/http.Transport"},
		{`import "net/http"; var a = http.DefaultTransport.(*http.Transport).Clone()`, "net/http.DefaultTransport"},
		{`import web "net/http"; var a = []web.Client{{}}`, "net/http.Client"},
		{`import . "net/http"; var a = Client{}`, ". net/http"},
		{`import "net/http/httputil"; var a = &httputil.ReverseProxy{}`, "net/http/httputil.ReverseProxy"},
		{`import "net"; var a, b = net.Dial("tcp", "")`, "net.Dial"},
		{`import "net"; var a = net.DialTimeout`, "net.DialTimeout"},
		{`import "net"; var a = (&net.Dialer{}).DialContext`, "net.Dialer"},
		{`import n "net"; func a() { var d n.Dialer; d.Dial("", "") }`, "net.Dialer"},
		{`import "crypto/tls"; var a = tls.Dial`, "crypto/tls.Dial"},
		{`import "crypto/tls"; var a = tls.Dialer{}`, "crypto/tls.Dialer"},
		{`import "crypto/tls"; var a = tls.Client`, "crypto/tls.Client"},
		{`import "net/smtp"; var a = smtp.SendMail`, "net/smtp"},
		{`import "net/http"; func a(c *http.Client) { var _ http.Handler; _ = http.NoBody }`, ""},
		{`import "net/http"; var a http.RoundTripper`, ""},
		{`import "net"; func a(d *net.Dialer, c net.Conn) {}`, ""},
		{`import "example.com/http"; var a = http.Client{}`, ""},
	} {
		found, err := dialing("planted.go", "package planted; "+c.code)
		got := ""
		if len(found) > 0 {
			_, got, _ = strings.Cut(found[0], ": ")
		}
		if err != nil || got != c.want {
			t.Errorf("%s: found %q, %v; want %q", c.code, found, err, c.want)
		}
	}
}
