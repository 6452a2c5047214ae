package cli

import (
	"fmt"
	"net"
	"slices"

	"github.com/tidemill/tidemill/cli/command"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/delivery"
	"github.com/tidemill/tidemill/systems/delivery/deliveryconfig"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
)

// firstEvents shows for every system that runs how to send it an event and how to find that
// again, in commands that work as they are printed from another terminal.
func (t *teller) firstEvents(cfg *config.Loaded, systems, projects []string, url string, noAuth bool) {
	if t.json {
		return
	}
	f := firstEvent{cfg: cfg, projects: projects, program: t.e.Program}
	// What a command finds without a word: the same file, but not the flags and variables of
	// this process.
	plain, err := (&command.Settings{}).Read(command.Env{Table: t.e.Table, Getenv: func(string) string { return "" }}, nil)
	if err != nil || command.Listener(plain) != url {
		f.at = " --server " + url
	}
	if cfg.Admin.Key.IsZero() && !noAuth && (err != nil || plain.Data != cfg.Data) {
		f.at += " --data " + command.ShellWord(cfg.Data) // where its token is
	}
	if err != nil || bridgeconfig.Of(plain).Broker.Listen != bridgeconfig.Of(cfg).Broker.Listen {
		f.broker = "MQTT_BROKERS=tcp://" + bridgeconfig.Of(cfg).Broker.Listen + " "
	}
	t.say("\nSend a first event, from another terminal:\n\n")
	if !cfg.Admin.Key.IsZero() && (f.at != "" || !plain.Admin.Key.Equal(cfg.Admin.Key)) {
		t.say("  (with the API's token in the environment, TIDEMILL_TOKEN)\n")
	}
	for _, s := range systems {
		for n, line := range f.of(s) {
			if n > 0 {
				s = ""
			}
			t.say("  %-11s %s\n", s, line)
		}
	}
	t.say("\n")
}

// firstEvent makes the commands.
type firstEvent struct {
	cfg      *config.Loaded
	projects []string
	program  string
	at       string // flags that find the instance
	broker   string // what finds the embedded broker
}

func (f *firstEvent) of(system string) []string {
	run := func(format string, args ...any) string { return f.program + " " + fmt.Sprintf(format, args...) + f.at }
	pipe := func(event, format string, args ...any) string {
		return "echo " + command.ShellWord(event) + " | " + run(format, args...)
	}
	switch system {
	case analytics.Name:
		project := ""
		if len(f.projects) > 1 {
			project = " --project " + command.ShellWord(f.tenant())
		}
		return []string{
			pipe(`{"event": "signed_up", "distinct_id": "user-1", "properties": {"plan": "free"}}`, "send%s", project),
			run("events%s", project)}
	case "bridge":
		return f.bridge(pipe)
	case delivery.Name:
		site := f.tenant()
		if all := deliveryconfig.Of(f.cfg).Sites; len(all) > 0 {
			site = all[0].ID
		}
		const id = "5b8f3c1e-2f7a-4c7e-9d51-0c3f6f1f0a01"
		return []string{
			pipe(fmt.Sprintf(`{"eventType": "page_view", "timestamp": "2026-01-15T10:00:00Z", "siteId": %q, "eventId": %q, "context": {"page": {"url": "https://shop.example/"}}}`, site, id), "event send"),
			run("event show %s", id)}
	case crm.Name:
		tenant := f.tenant()
		if all := crmconfig.Of(f.cfg).Tenants; len(all) > 0 {
			tenant = all[0].ID
		}
		if !event.ValidTenant(tenant) {
			tenant = "default"
		}
		return []string{
			pipe(fmt.Sprintf(`{"id": "first", "type": "member.created", "tenantId": %q, "identity": {"email": "ann@example.com"}, "occurredAt": "2026-01-15T10:00:00Z", "payload": {"city": "Berlin"}}`, tenant), "crm send"),
			run("synclog show %s first", tenant)}
	case windows.Name:
		const batch = "20260115100000"
		lines := []string{
			pipe(`{"globalEventId": 1, "day": 20260115, "eventCode": "141", "actor1Name": "BERLIN"}`, "window send --batch %s --kind event", batch),
			run("window close %s", batch)}
		if windowsconfig.Of(f.cfg).Search.Enabled {
			return append(lines, run("search berlin"))
		}
		return append(lines, run("window list"))
	}
	return nil
}

// bridge writes where the stream is: into the embedded one, or into that of the Redis.
func (f *firstEvent) bridge(pipe func(event, format string, args ...any) string) []string {
	const entry = `{"text": "disk full"}`
	c := bridgeconfig.Of(f.cfg)
	listen := f.broker + f.program + " bridge listen --ack   # in its own terminal: it prints and acknowledges the messages"
	if c.Embedded() {
		return []string{listen, pipe(entry, "bridge send")}
	}
	host, port := "127.0.0.1", "6379"
	if len(c.Redis.Addresses) > 0 {
		if h, p, err := net.SplitHostPort(c.Redis.Addresses[0]); err == nil {
			host, port = h, p
		}
	}
	return []string{listen, fmt.Sprintf("redis-cli -h %s -p %s XADD %s '*' payload %s", host, port, command.ShellWord(c.Redis.Stream), command.ShellWord(entry))}
}

// tenant is a project that events may be of.
func (f *firstEvent) tenant() string {
	for _, p := range f.cfg.Projects {
		if slices.Contains(f.projects, p.Name) || len(f.projects) == 0 {
			return p.Name
		}
	}
	if len(f.projects) > 0 {
		return f.projects[0]
	}
	return "default"
}
