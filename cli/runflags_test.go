package cli

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tidemill/tidemill/systems"
)

// parseRun parses tidemill run with these arguments.
func parseRun(t *testing.T, args ...string) (*runFlags, error) {
	t.Helper()
	var c struct {
		Run struct {
			kong.Plugins
		} `cmd:""`
	}
	b := newRunFlags(systems.All())
	c.Run.Plugins = b.plugins()
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"run"}, args...))
	return b, err
}

func TestEveryFlagOfTheBridgeReachesItsSetting(t *testing.T) {
	n := 0
	for _, f := range systems.All().Settings().Reference() {
		if f.Flag == "" || !strings.HasPrefix(f.Path, "bridge.") {
			continue
		}
		n++
		tries := map[string]string{"--" + f.Flag + "=x y": "x y", "--" + f.Flag + "=": ""}
		if f.Bool() {
			tries = map[string]string{"--" + f.Flag: "true", "--" + f.Flag + "=true": "true", "--" + f.Flag + "=false": "false", "--no-" + f.Flag: "false"}
		}
		for arg, want := range tries {
			b, err := parseRun(t, arg)
			if got := b.given(); err != nil || !maps.Equal(got, map[string]string{f.Path: want}) {
				t.Errorf("%s gives %v, %v; want %s = %q", arg, got, err, f.Path, want)
			}
		}
	}
	if n < 75 {
		t.Errorf("only %d flags", n)
	}
	b, err := parseRun(t)
	if err != nil || len(b.given()) != 0 {
		t.Errorf("without flags %v are given, %v", b.given(), err)
	}
	b, err = parseRun(t, "--redis-addr", "a:1,b:2", "--mqtt-qos", "1", "--redis-addr", "c:3")
	if got, want := b.given(), map[string]string{"bridge.redis.addresses": "a:1,b:2,c:3", "bridge.mqtt.qos": "1"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("given: %v, %v; want %v", got, err, want)
	}
}

func TestTheFlagsOfTheBridgeAreForTheBridge(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"run analytics --mqtt-qos 1", "--mqtt-qos: a flag of bridge, which does not run here: tidemill run bridge runs it"},
		{"run analytics --redis-addr a:1 --no-pipeline-zero-copy", "--redis-addr, --pipeline-zero-copy: a flag of bridge, which does not run here"},
		{"run analytics --mqtt-qos 7", "--mqtt-qos: a flag of bridge, which does not run here"},
		{"run --mqtt-qos 1", "--mqtt-qos: a flag of bridge, which does not run here"},
		{"run bridge --mqtt-qoss 1", `unknown flag --mqtt-qoss, did you mean "--mqtt-qos"?`},
		{"run bridge --mqtt-password x", "unknown flag --mqtt-password"},
		{"run bridge --redis-aggressive-claim=maybe", "--redis-aggressive-claim: bool value must be true"},
		{"send --mqtt-qos 1", "unknown flag --mqtt-qos"},
	} {
		if status, out, errs := call(t, nil, strings.Fields(c.args)...); status != 2 || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, "--help`.") {
			t.Errorf("tidemill %s: exit status %d, want 2 and %q\n%s%s", c.args, status, c.want, out, errs)
		}
	}
}

func TestTheBridgesHelpIsItsOwn(t *testing.T) {
	_, plain, _ := call(t, nil, "run", "--help")
	_, whole, _ := call(t, nil, "run", "bridge", "--help")
	for _, flag := range []string{"--redis-addr=", "--[no-]redis-aggressive-claim", "--mqtt-broker=", "--pipeline-flush-interval-ms=", "(REDIS_DB)"} {
		if strings.Contains(plain, flag) || !strings.Contains(whole, flag) {
			t.Errorf("%s: in run --help: %v, in run bridge --help: %v; want it in the second alone", flag, strings.Contains(plain, flag), strings.Contains(whole, flag))
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(plain), " "), "tidemill run bridge --help lists them") {
		t.Errorf("run --help does not say where the flags of the bridge are:\n%s", plain)
	}
	if strings.Contains(plain, "Bridge, ") {
		t.Errorf("run --help has empty groups:\n%s", plain)
	}
}

func TestWrongSettingsOfTheBridgeDisturbTheBridgeAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	wrong := map[string]string{"LOG_LEVEL": "trace", "LOG_FORMAT": "xml", "METRICS_PORT": "tcp://10.0.0.1:9090", "REDIS_DB": "-1", "TIDEMILL_LISTEN": "127.0.0.1:1",
		"REDIS_PASSWORD": "canary"}
	mistakes := []string{
		`METRICS_PORT: "tcp://10.0.0.1:9090" is not a whole number; allowed: 1 to 65535`,
		`bridge.redis.db (from REDIS_DB): invalid value "-1"; allowed: 0 or more`,
		`bridge.log.format (from LOG_FORMAT): invalid value "xml"; allowed: json|text`,
	}
	for args, want := range map[string]struct {
		status int
		bridge bool
	}{
		"run bridge":                          {1, true},
		"run bridge analytics":                {1, true},
		"run --mqtt-broker tcp://m:1":         {1, true}, // an address makes it run
		"config check bridge":                 {1, true},
		"config check":                        {1, true},
		"config show":                         {0, true}, // and says so beside it
		"config check analytics":              {0, false},
		"status":                              {1, false}, // nothing runs there
		"run analytics --listen 256.0.0.1:1":  {1, false},
		"run analytics --listen nowhere":      {1, false},
		"run bridge --redis-db -1 --listen x": {2, false},
	} {
		status, out, errs := call(t, wrong, strings.Fields(args)...)
		if status != want.status {
			t.Errorf("tidemill %s: exit status %d, want %d\n%s", args, status, want.status, errs)
		}
		for _, m := range mistakes {
			if strings.Contains(errs, m) != want.bridge {
				t.Errorf("tidemill %s says %q: %v, want %v\n%s", args, m, !want.bridge, want.bridge, errs)
			}
		}
		if strings.Contains(out+errs, "canary") {
			t.Errorf("tidemill %s shows the password", args)
		}
	}
	// All mistakes at once, not the bridge's alone.
	wrong["TIDEMILL_ANALYTICS_LANES"] = "99"
	if _, _, errs := call(t, wrong, "run", "bridge"); !strings.Contains(errs, mistakes[0]) || !strings.Contains(errs, "analytics.lanes (from TIDEMILL_ANALYTICS_LANES)") {
		t.Errorf("run bridge says\n%s", errs)
	}
	if _, err := os.Stat(filepath.Join(".", "tidemill-data")); err == nil {
		t.Error("a run that was refused left data")
	}
}
