package windowsconfig

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/when"
	"github.com/tidemill/tidemill/state/project"
)

// Check refuses what the windows system cannot start with. Its error names every mistake: the
// variable or line of the file, the value (never a secret's) and what is allowed.
func (w *Settings) Check() error {
	k := config.NewChecker(w.c, Group.Name)
	k.Limits()
	scheme := func(u config.URL, path string, schemes ...string) {
		if !u.Has(schemes...) {
			k.Fail(path, "%q is no address: write %s://…", u, strings.Join(schemes, ":// or "))
		}
	}
	scheme(w.Redis.URL, "redis.url", config.RedisSchemes...)
	if strings.Contains(string(w.Kafka), "://") {
		scheme(w.Kafka, "kafka", "kafka", "kafka+tls")
	}
	scheme(w.Search.URL, "search.url", "http", "https")
	scheme(w.Files.URL, "files.url", "http", "https")
	if u, err := url.Parse(string(w.Files.URL)); err == nil {
		if u.Scheme == "http" && !w.Files.HTTP {
			k.Fail("files.url", "it is unencrypted; set files.http, if that is meant")
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			if err := httpguard.Check(a, w.Files.AllowPrivate); err != nil {
				k.Fail("files.url", "%v (files.allow_private)", err)
			}
		}
	} else {
		k.Fail("files.url", "it is no URL")
	}
	if _, err := when.Start(w.Files.Since, time.Now()); err == nil && strings.Trim(w.Files.Since, "0123456789") != "" { // such a text is before all batch ids of its year, or behind all
		k.Refuse("files.since", w.Files.Since, "a batch id, which is compared as a text, such as 20260101000000")
	}
	if w.Project != "" && !w.hasProject(w.Project) {
		k.Fail("project", "%q names no project; say which has what comes by Kafka, from files and from the command line: %s", w.Project, strings.Join(w.projectNames(), ", "))
	}
	if k.Readable("life", "window") && w.Life < 2*w.Window {
		k.Fail("life", "%v is less than twice the window of %v: records of an outage would be gone before they are delivered", w.Life, w.Window)
	}
	if !w.Search.Enabled && w.Brokers() == "" {
		k.Fail("search.enabled", "without Kafka nobody else reads what is sent: leave the index on, or set windows.kafka")
	}
	k.OK(w.Search.KeepMost == 0 || w.Search.KeepMost >= 1<<20, "search.keep_most")
	if w.Search.KeepMost > 0 && w.Search.Keep > 0 && w.Search.KeepLeast > w.Search.Keep {
		k.Fail("search.keep_least", "it is more than windows.search.keep, %v, after which days go in any case", w.Search.Keep)
	}
	if w.Transactional && w.Brokers() == "" {
		k.Fail("transactional", "only Kafka has transactions: set windows.kafka")
	}
	if w.Topics.Results != "" && w.Brokers() == "" {
		k.Fail("topics.results", "without Kafka nobody reads this topic: leave it out, and results are logged")
	}
	if w.Given("server_port") && w.Given("actuator_port") && w.ServerPort == w.ActuatorPort {
		k.Fail("actuator_port", "%d is the server_port too: want another", w.ActuatorPort)
	}
	for _, p := range []struct {
		path string
		port int
	}{{"server_port", w.ServerPort}, {"actuator_port", w.ActuatorPort}} {
		if _, port, _ := net.SplitHostPort(w.c.Listen); w.Given(p.path) && port == strconv.Itoa(p.port) {
			k.Fail(p.path, "%d is the port of listen too: want another", p.port)
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
		if other := names[t.name]; other != "" && !(strings.HasPrefix(t.path, indexDead) && strings.HasPrefix(other, Group.Name+"."+indexDead)) {
			k.Fail(t.path, "%q is the topic of %s too: want another", t.name, other)
		}
		names[t.name] = Group.Name + "." + t.path
	}
	_, err := w.Steps(nil)
	k.Add(err)
	return k.Err()
}

// Warnings are said where nobody has a key of the project that nothing names.
func (w *Settings) Warnings() []string {
	name := w.ProjectName()
	if !w.c.Runs(Group.Name) || !w.Configured() || w.Project != "" || name == "" || w.hasProject(name) {
		return nil
	}
	return []string{fmt.Sprintf("windows.project: what comes by Kafka, from files and from the command line is of the project %s, which nobody has a key of: set one of %s", name, strings.Join(w.projectNames(), ", "))}
}

// projectNames are those of projects, of which there is one where none is configured.
func (w *Settings) projectNames() (names []string) {
	for _, p := range w.c.Projects {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return []string{"default"}
	}
	return names
}

// hasProject says whether a name is one of them.
func (w *Settings) hasProject(name string) bool {
	return slices.ContainsFunc(w.projectNames(), func(n string) bool { return project.ID(n) == project.ID(name) })
}
