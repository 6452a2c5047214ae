package enrich

import (
	"fmt"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	defaultAgents = 20_000 // a long tail: 75,000 log lines hold about this many distinct strings
	defaultMaxUA  = 2 << 10
)

// Agent is what a user agent string says. A field that it does not say is empty.
type Agent struct {
	Browser        string // "Chrome", "Mobile Safari", "Samsung Internet"…; of a bot or tool its own name, "Googlebot", "curl", or "Bot"; empty for apps without one
	BrowserVersion string // as written, with all parts: "124.0.6367.82"
	OS             string // "Windows", "macOS", "iOS", "Android"…
	OSVersion      string // as written; browsers freeze it (Windows 10, macOS 10.15.7, Android 10), and it is not guessed
	Device         string // mobile, tablet, smarttv, console, wearable, xr, embedded, bot; desktop where only the browser is known
}

// AgentsOptions tunes Agents; the zero value is ready to use.
type AgentsOptions struct {
	Size   int // distinct strings remembered; 0 means 20,000
	MaxLen int // bytes; a longer string is not parsed; 0 means 2,048
}

// Agents reads user agent strings by the rules of uap-core, and remembers the most recent ones:
// a known string costs one map lookup, a new one some tens of microseconds. Its memory is
// bounded by Size strings of at most MaxLen bytes. It is safe for concurrent use.
type Agents struct {
	rules  rules
	seen   *lru.Cache[string, Agent]
	maxLen int
}

// NewAgents compiles the rules before it returns, which takes about 50 ms of CPU, once: no
// event waits for it. It refuses negative options.
func NewAgents(o AgentsOptions) (*Agents, error) {
	if o.Size < 0 || o.MaxLen < 0 {
		return nil, fmt.Errorf("user agents: size %d and longest string %d must not be negative", o.Size, o.MaxLen)
	}
	if o.Size == 0 {
		o.Size = defaultAgents
	}
	if o.MaxLen == 0 {
		o.MaxLen = defaultMaxUA
	}
	seen, err := lru.New[string, Agent](o.Size)
	if err != nil {
		return nil, fmt.Errorf("user agents: cache of %d: %w", o.Size, err)
	}
	rules, err := newRules()
	if err != nil {
		return nil, fmt.Errorf("user agents: %w", err)
	}
	return &Agents{rules: rules, seen: seen, maxLen: o.MaxLen}, nil
}

// Parse reads a user agent string. It does not keep ua.
func (a *Agents) Parse(ua string) Agent {
	if ua == "" || len(ua) > a.maxLen {
		return Agent{}
	}
	if agent, ok := a.seen.Get(ua); ok {
		return agent
	}
	ua = strings.Clone(ua) // the caller's string may be part of a large message; results point into this copy
	agent := a.read(ua)
	a.seen.Add(ua, agent)
	return agent
}

// read parses a new string.
func (a *Agents) read(ua string) Agent {
	l := newLine(ua)
	os := a.rules.system(l)
	program, ok := tool(l.ua)
	if !ok && isBot(l.lower) {
		program, ok = a.rules.botName(l), true
	}
	if ok {
		return Agent{Browser: program.name, BrowserVersion: program.version, OS: os.name, OSVersion: os.version, Device: bot}
	}
	browser := a.rules.browser(l)
	return Agent{
		Browser: browser.name, BrowserVersion: browser.version,
		OS: os.name, OSVersion: os.version,
		Device: deviceClass(l.lower, browser.name),
	}
}

// product is a name with its version.
type product struct{ name, version string }
