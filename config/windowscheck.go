package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/systems/windows/process"
)

// windowsPrefix is what the paths of the settings of windows begin with.
const windowsPrefix = "windows."

// CheckWindows refuses what the windows system cannot start with. Its error names every
// mistake: the variable or line of the file, the value (never a secret's) and what is allowed.
// It is for who runs the system; Load does not call it.
func (c *Loaded) CheckWindows() error {
	w := &c.Windows
	k := newChecker(fieldsIn(reflect.ValueOf(w).Elem(), windowsPrefix, 0, false), w.wrong, c.From)
	fail := func(path, format string, args ...any) { k.fail(windowsPrefix+path, format, args...) }
	scheme := func(u URL, path string, schemes ...string) {
		before, rest, found := strings.Cut(string(u), "://")
		if u != "" && (!found || !slices.Contains(schemes, before) || strings.Trim(rest, "/") == "") {
			fail(path, "%q is no address: write %s://…", u, strings.Join(schemes, ":// or "))
		}
	}
	scheme(w.Redis.URL, "redis.url", "redis", "rediss", "redis+sentinel", "rediss+sentinel")
	if strings.Contains(string(w.Kafka), "://") {
		scheme(w.Kafka, "kafka", "kafka", "kafka+tls")
	}
	scheme(w.Search.URL, "search.url", "http", "https")
	scheme(w.Files.URL, "files.url", "http", "https")
	if u, err := url.Parse(string(w.Files.URL)); err == nil {
		if u.Scheme == "http" && !w.Files.HTTP {
			fail("files.url", "it is unencrypted; set files.http, if that is meant")
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			if err := httpguard.Check(a, w.Files.AllowPrivate); err != nil {
				fail("files.url", "%v (files.allow_private)", err)
			}
		}
	} else {
		fail("files.url", "it is no URL")
	}
	if w.Project != "" && !c.hasProject(w.Project) {
		fail("project", "%q names no project; say which has what comes by Kafka, from files and from the command line: %s", w.Project, strings.Join(c.projectNames(), ", "))
	}
	if k.readable(windowsPrefix+"life", windowsPrefix+"window") && w.Life < 2*w.Window {
		fail("life", "%v is less than twice the window of %v: records of an outage would be gone before they are delivered", w.Life, w.Window)
	}
	if !w.Search.Enabled && c.WindowsKafka() == "" {
		fail("search.enabled", "without Kafka nobody else reads what is sent: leave the index on, or set windows.kafka")
	}
	if w.Transactional && c.WindowsKafka() == "" {
		fail("transactional", "only Kafka has transactions: set windows.kafka")
	}
	if w.Topics.Results != "" && c.WindowsKafka() == "" {
		fail("topics.results", "without Kafka nobody reads this topic: leave it out, and results are logged")
	}
	if w.Given("server_port") && w.Given("actuator_port") && w.ServerPort == w.ActuatorPort {
		fail("actuator_port", "%d is the server_port too: want another", w.ActuatorPort)
	}
	for _, p := range []struct {
		path string
		port int
	}{{"server_port", w.ServerPort}, {"actuator_port", w.ActuatorPort}} {
		if _, port, _ := net.SplitHostPort(c.Listen); w.Given(p.path) && port == strconv.Itoa(p.port) {
			fail(p.path, "%d is the port of listen too: want another", p.port)
		}
	}
	const indexDead = "topics.index_dead." // events and mentions may share one: nothing of ours reads it
	names := map[string]string{}
	for _, t := range []struct{ path, name string }{
		{"topics.adapter_event", w.Topics.AdapterEvent}, {"topics.adapter_mention", w.Topics.AdapterMention},
		{"topics.processor_event", w.Topics.ProcessorEvent}, {"topics.processor_mention", w.Topics.ProcessorMention},
		{indexDead + "event", w.Topics.IndexDead.Event}, {indexDead + "mention", w.Topics.IndexDead.Mention}, {"topics.results", w.Topics.Results}} {
		if t.name == "" {
			continue
		}
		if other := names[t.name]; other != "" && !(strings.HasPrefix(t.path, indexDead) && strings.HasPrefix(other, windowsPrefix+indexDead)) {
			fail(t.path, "%q is the topic of %s too: want another", t.name, other)
		}
		names[t.name] = windowsPrefix + t.path
	}
	_, err := c.WindowsSteps(nil)
	return errors.Join(append(k.errs, err)...)
}

// projectNames are those of projects, of which there is one where none is configured.
func (c *Config) projectNames() (names []string) {
	for _, p := range c.Projects {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return []string{"default"}
	}
	return names
}

// hasProject says whether a name is one of them.
func (c *Config) hasProject(name string) bool {
	return slices.ContainsFunc(c.projectNames(), func(n string) bool { return project.ID(n) == project.ID(name) })
}

// WindowsSteps are the processors of the configuration. Its error names every one that cannot
// work.
func (c *Loaded) WindowsSteps(now func() time.Time) (steps []process.Step, _ error) {
	var errs []error
	names := map[string]int{process.Reading: 0}
	for i := range c.Windows.Processors {
		p := &c.Windows.Processors[i]
		step, err := c.windowsStep(p, now)
		if err == nil {
			if other, taken := names[step.Processor.Name()]; taken && other == 0 {
				err = fmt.Errorf("it cannot be called %q: that is the reading of stored records", process.Reading)
			} else if taken {
				err = fmt.Errorf("it is called %q, as number %d is: give it a name of its own", step.Processor.Name(), other)
			} else {
				names[step.Processor.Name()] = i + 1
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: number %d: %w", c.element("windows.processors", i), i+1, err))
		}
		steps = append(steps, step)
	}
	return steps, errors.Join(errs...)
}

func (c *Loaded) windowsStep(p *WindowsProcessor, now func() time.Time) (s process.Step, err error) {
	if s.Kind, err = p.Of(); err != nil {
		return s, fmt.Errorf("kind: %q: want event or mention, or leave it out for both", p.Kind)
	}
	if s.OnError, err = process.ParseOnError(p.OnError); err != nil {
		return s, fmt.Errorf("on_error: %q: want pass, retry or dead", p.OnError)
	}
	var made []func() (process.Processor, error)
	add := func(there bool, setting string, check func() error, make func() (process.Processor, error)) {
		if there {
			made = append(made, func() (process.Processor, error) {
				if err := check(); err != nil {
					return nil, err
				}
				step, err := make()
				if err != nil {
					err = fmt.Errorf("%s: %w", setting, err)
				}
				return step, err
			})
		}
	}
	add(p.Filter != nil, "filter.keep", func() error {
		return wanted(p.Filter.Keep != "", "filter.keep", "an expression that is true for the records to keep, such as numMentions > 1")
	}, func() (process.Processor, error) {
		return process.Filter{ID: p.Name, Keep: p.Filter.Keep, Reason: p.Filter.Reason}.New()
	})
	add(p.Validate != nil, "validate", func() error { return p.checkValidate() }, process.Validate{ID: p.Name, Rules: p.Validate}.New)
	add(p.Map != nil, "map", func() error { return p.checkMap() }, process.Map{ID: p.Name, Values: p.Map}.New)
	add(p.Geo != nil, "geo", func() error { return nil }, func() (process.Processor, error) {
		return process.Geo{ID: p.Name, Zero: p.Geo.Zero, Point: p.Geo.Point}.New()
	})
	add(p.Dedup != nil, "dedup", func() error {
		return errors.Join(wanted(s.Kind != 0, "kind", "event or mention: dedup compares values of one kind of records"),
			wanted(len(p.Dedup.By) > 0, "dedup.by", "a list of names of values, such as [globalEventId]"),
			wanted(p.Dedup.Max >= 0, "dedup.max", "a whole number of records, 0 for a million"))
	}, func() (process.Processor, error) {
		return process.Dedup{ID: p.Name, Of: s.Kind, By: p.Dedup.By, Max: p.Dedup.Max, Any: p.Dedup.Any}.New()
	})
	add(p.Aggregate != nil, "aggregate", func() error {
		return errors.Join(wanted(s.Kind != 0, "kind", "event or mention: aggregate counts one kind of records"),
			wanted(p.Aggregate.Max >= 0, "aggregate.max", "a whole number of groups, 0 for 10000"))
	}, func() (process.Processor, error) {
		return process.Aggregate{ID: p.Name, Of: s.Kind, By: p.Aggregate.By, Sum: p.Aggregate.Sum, Max: p.Aggregate.Max}.New()
	})
	add(p.HTTP != nil, "http", func() error { return p.HTTP.check() }, func() (process.Processor, error) { return c.windowsHTTP(p, now) })
	if len(made) != 1 {
		return s, errors.New("say what it does: exactly one of filter, validate, map, geo, dedup, aggregate and http")
	}
	s.Processor, err = made[0]()
	return s, err
}

// wanted is the error of a setting that is not as it has to be.
func wanted(good bool, setting, form string) error {
	if good {
		return nil
	}
	return fmt.Errorf("%s: want %s", setting, form)
}

func (p *WindowsProcessor) checkValidate() error {
	errs := []error{wanted(len(p.Validate) > 0, "validate", "a list of rules, such as [{must: 'numMentions > 0', why: nobody mentions it}]")}
	for i, r := range p.Validate {
		errs = append(errs, wanted(r.Must != "", fmt.Sprintf("validate[%d].must", i), "an expression that is true for valid records, such as numMentions > 0"))
	}
	return errors.Join(errs...)
}

func (p *WindowsProcessor) checkMap() error {
	errs := []error{wanted(len(p.Map) > 0, "map", "a list of values, such as [{name: source, from: '\"gdelt\"'}]")}
	for i, v := range p.Map {
		errs = append(errs, wanted(v.Name != "", fmt.Sprintf("map[%d].name", i), "the name of the value that is made"),
			wanted(v.From != "", fmt.Sprintf("map[%d].from", i), "an expression, or the name of a value"))
	}
	return errors.Join(errs...)
}

func (h *WindowsHTTP) check() error {
	u, err := url.Parse(h.URL)
	return errors.Join(
		wanted(err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http"), "http.url", "the address of a service, such as https://service.example/v1"),
		wanted(h.Items >= 0, "http.items", "a whole number of records, 0 for 100"),
		wanted(h.Parallel >= 0 && h.Parallel <= 64, "http.parallel", "0 to 64 requests at once"),
		wanted(h.Timeout >= 0, "http.timeout", "a duration such as 10s, 0 for 10s"),
		wanted(h.Retries >= 0 && h.Retries <= 100, "http.retries", "0 to 100"))
}

func (c *Loaded) windowsHTTP(p *WindowsProcessor, now func() time.Time) (process.Processor, error) {
	h := p.HTTP
	var allow Networks
	if err := allow.UnmarshalText([]byte(strings.Join(h.AllowPrivate, ","))); err != nil {
		return nil, fmt.Errorf("allowPrivate: %w", err)
	}
	header := map[string]tidemill.Secret{}
	for name, value := range h.Headers {
		header[name] = tidemill.NewSecret(value)
	}
	for name, variable := range h.HeadersEnv {
		s, ok := c.Secret(variable)
		if !ok {
			return nil, fmt.Errorf("headers_env: neither %s nor %s_FILE is set", variable, variable)
		}
		header[name] = s
	}
	guard, err := httpguard.New(httpguard.Options{Allow: allow, Plain: h.AllowHTTP, Connections: cmp.Or(h.Parallel, 1) * c.Windows.AtOnce})
	if err != nil {
		return nil, err
	}
	return process.HTTP{ID: p.Name, URL: h.URL, Header: header, Fields: h.Fields, Items: h.Items, Parallel: h.Parallel, Timeout: h.Timeout,
		Retry:   policy.Retry{Tries: h.Retries, Base: time.Second / 2, Factor: 2, Max: 10 * time.Second, Jitter: policy.Equal},
		Breaker: policy.Breaker{Fails: 5, Open: 10 * time.Second}, Now: now}.New(guard)
}

// Example shows what the lists of the group hold, in the file that init writes.
func (Windows) Example() string {
	return `  # what is done with the records of a window before they are sent, in this order; each is one
  # of filter, validate, map, geo, dedup, aggregate and http
  #processors:
  #  - filter: {keep: 'kind == "mention" || numMentions > 1', reason: single}
  #  - kind: event                     # or mention; left out: both
  #    validate:
  #      - {must: '(actionGeoLat ?? 0) <= 90', why: 'the place is on no globe'}
  #  - map: [{name: source, from: '"gdelt"'}]
  #  - geo: {zero: true, point: place} # 0/0 is no place; the first place is added as place
  #  - kind: mention
  #    dedup: {by: [globalEventId, mentionIdentifier, sentenceId]}
  #  - kind: event
  #    aggregate: {by: [actionGeoCountryCode], sum: [numMentions]}
  #  - name: sentiment
  #    kind: mention
  #    on_error: pass                  # the record goes on as it was; or retry (the window), or dead
  #    http:
  #      url: https://sentiment.example.com/v1
  #      fields: [mentionIdentifier]
  #      items: 100                    # records in a request
  #      timeout: 10s
  #      retries: 2
  #      headers_env: {Authorization: SENTIMENT_TOKEN}
  #      allowPrivate: [10.1.0.0/16]   # networks that may be reached though they are private
  #      allowHttp: false
`
}
