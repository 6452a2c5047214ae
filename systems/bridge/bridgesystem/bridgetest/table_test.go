//go:build unix

package bridgetest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/systems"
)

// scenario sets some settings and observes what a running bridge does with them.
type scenario struct {
	name     string
	settings []string // those whose effect is observed
	run      func(*testing.T, *given)
}

// given is what a scenario set, and where it runs.
type given struct {
	redis string // URL of a Redis

	mu   sync.Mutex
	seen map[string]bool
}

func (g *given) note(e env) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range e {
		g.seen[name] = true
	}
}

// scenarios are all of them, by what they are about.
func scenarios() []scenario {
	return slices.Concat(ofRedis, ofClaims, ofMQTT, ofTLS, ofPipeline, ofFailures, ofWorkers, ofListeners, ofProcess, ofEmbedded, ofStrangers)
}

func TestSettings(t *testing.T) {
	redis := testenv.Start(t, testenv.PrivateRedis) // not the one that all packages share: monitors slow it, and others slow us
	for _, s := range scenarios() {
		t.Run(strings.ReplaceAll(s.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			g := &given{redis: redis.URL, seen: map[string]bool{}}
			s.run(t, g)
			for _, name := range s.settings {
				if !g.seen[name] {
					t.Errorf("it is to observe %s, and does not set it", name)
				}
			}
		})
	}
}

// A setting that is not observed may do nothing, or something else than it says.
func TestEverySettingIsObserved(t *testing.T) {
	observed := map[string]bool{}
	for _, s := range scenarios() {
		for _, name := range s.settings {
			observed[name] = true
		}
	}
	c, err := systems.All().Settings().Load(config.Layers{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range c.Fields() {
		if !strings.HasPrefix(f.Path, "bridge.") {
			continue
		}
		n++
		name := f.Env[len(f.Env)-1]
		if !observed[name] {
			t.Errorf("no scenario observes %s (%s)", f.Path, name)
		}
		delete(observed, name)
	}
	for name := range observed {
		t.Errorf("a scenario observes %s, which is no setting of the bridge", name)
	}
	if n < 100 {
		t.Errorf("%d settings were found: are they all?", n)
	}
}
