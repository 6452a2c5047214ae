// Package windowssystem puts windows on the servers that are configured, or on the embedded database.
package windowssystem

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/tablewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/tableprogress"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/sqlitesearch"
	"github.com/tidemill/tidemill/systems/windows/windowsapi"
	"github.com/tidemill/tidemill/systems/windows/windowscli"
	"github.com/tidemill/tidemill/systems/windows/windowsconfig"
	"github.com/tidemill/tidemill/systems/windows/windowsconsole"
	"github.com/tidemill/tidemill/systems/windows/windowsmetrics"
)

// Names of the windows system's own in what it shares with other systems.
const (
	keys          = "tidemill:window" // the window store's
	queuesKeys    = "tidemill:window-topics"
	lettersStream = "windows:dlq"
	filesIntake   = "windows-files" // the intake of files
)

// stores are what stands behind the roles of the windows system.
type stores struct {
	windows  window.Store
	letters  deadletter.Store
	topics   topics
	events   *search.Schema // of the index
	mentions *search.Schema
	index    search.Store            // nil: nothing is indexed here
	intakes  []windows.Intake        // of files
	files    []windowsapi.FileSource // the same
	projects project.Store           // those whose keys may send
	project  uuid.UUID               // of records that come without a key

	// adopt takes over what another program has in that Redis; nil: there is none.
	adopt func(context.Context, string, uuid.UUID, bool) (windowsapi.AdoptedWindows, error)

	queues queue.Store // for the topics, in the Redis; nil: not there
}

// The process is to stay below 300 MB, with what is not heap: on the embedded database that are its
// caches too (measured, docs/performance.md).
const (
	roomOnServers = 240 << 20
	roomEmbedded  = 130 << 20
)

// System is windows.
var System = system.System{
	Name:       windows.Name,
	Settings:   windowsconfig.Group,
	Unit:       "record",
	Operations: new(windowsapi.API).Operations(),
	Missing:    "windows do not run in this instance",
	Pages:      windowsconsole.Pages,
	Commands:   windowscli.Commands,
	First:      windowscli.First,
	Room: func(c *config.Loaded) int64 {
		if w := windowsconfig.Of(c); w.RedisURL() != "" && w.Brokers() != "" {
			return roomOnServers
		}
		return roomEmbedded
	},
	Check: func(c *config.Loaded) error { return windowsconfig.Of(c).Check() },
	Bounds: func(c *config.Loaded) system.Bounds {
		return system.Bounds{Jobs: windowsconfig.Of(c).QueueMax, DeadLetters: windowsconfig.Of(c).DeadMax}
	},
	Rehearse: rehearse,
	Build:    build,
	Figures:  figures,
}

// wiring is a system that is being built.
type wiring struct {
	*system.Host
	own   *windowsconfig.Settings
	parts system.Parts
}

// build puts the windows system together with its endpoints: windows and dead letters on the Redis
// that is named, topics on the Kafka, the index on the OpenSearch, and embedded what has no
// server.
func build(ctx context.Context, o *system.Host) (*system.Parts, error) {
	w := windowsconfig.Of(o.Config)
	h := &wiring{Host: o, own: w}
	stores, err := h.stores(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.Judge(ctx); err != nil {
		return nil, err
	}
	if err := h.findProjects(ctx, stores); err != nil {
		return nil, err
	}
	chain, err := h.chain(w)
	if err != nil {
		return nil, err
	}
	parts := windows.Parts{Intakes: append(stores.topics.intakes, stores.intakes...), Windows: stores.windows, DeadLetters: stores.letters, Chain: chain, Out: stores.topics.out}
	if stores.index != nil {
		parts.Index, parts.Readers = stores.index, stores.topics.readers
		h.retainDays(stores.index, &w.Search)
	}
	t := &w.Topics
	page := w.Page
	if page == 0 && h.own.Brokers() == "" { // what is embedded has little memory, and no brokers to wait for
		page = 1000
	}
	sys, err := windows.New(parts, windows.Options{
		Topics: windows.Topics{Event: t.ProcessorEvent, Mention: t.ProcessorMention, Results: t.Results}, Project: stores.project, BySentence: w.SentenceID,
		Header: w.Header, Expect: w.ExpectHeader, Store: w.Store, AtOnce: w.AtOnce, Page: page, Sweep: w.Sweep, Tries: w.Tries, Retry: w.Backoff,
		Record: policy.Retry{Tries: w.Retry.Attempts, Base: w.Retry.Interval, Factor: 1},
		Log:    o.Log, Now: o.Now, Observe: h.Observe, GiveWay: h.Way.Rest, Tracer: h.Tracer})
	if err != nil {
		return nil, err
	}
	handler, err := h.ingestAPI(ctx, stores)
	if err != nil {
		return nil, err
	}
	books := sys.Books()
	shown := admin.System{Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		if err != nil {
			return nil, false, err
		}
		return a, a.Balanced, nil
	}}
	p := &h.parts
	p.Runs = []system.Running{{System: sys.System, Shown: shown, Counted: books}}
	overflow, _ := stores.index.(interface{ Overflow() uint64 })
	p.Metrics = []prometheus.Collector{windowsmetrics.New(sys), windowsmetrics.NewIndexOverflow(func() uint64 {
		if overflow == nil { // it has no indices on a server
			return 0
		}
		return overflow.Overflow()
	})}
	for _, f := range stores.files {
		p.Metrics = append(p.Metrics, windowsmetrics.NewFiles(f.Name, f.Source))
	}
	p.Checks = []func(context.Context) []preflight.Finding{func(ctx context.Context) []preflight.Finding { return h.findings(ctx, sys, stores) }}
	desk := &windowsapi.API{Common: h.Common, Windows: sys, Adopt: stores.adopt, Files: stores.files}
	p.Operations, p.Finder = desk.Operations(), &windowsapi.Finder{API: desk, Now: o.Now}
	p.Reload = h.reload(sys, handler)
	p.API = func(api *admin.Parts) {
		if api.Projects == nil {
			api.Projects = stores.projects
		}
		api.AddLetters(windows.Name, stores.letters)
	}
	return p, nil
}

// stores opens what stands behind the roles.
func (h *wiring) stores(ctx context.Context) (*stores, error) {
	w := h.own
	s := &stores{}
	var err error
	if s.events, s.mentions, err = w.Schemas(); err != nil {
		return nil, err
	}
	redis, kafka, files := h.own.RedisURL() != "", h.own.Brokers() != "", w.Files.Folder != "" || w.Files.URL != ""
	indexed := w.Search.Enabled
	for _, part := range []struct {
		wanted bool
		open   func(context.Context, *stores) error
	}{
		{!redis || files || indexed && w.Search.URL == "", h.embedded},
		{redis, h.onRedis},
		{indexed && w.Search.URL != "", h.onOpenSearch},
		{kafka, h.onKafka},
		{!kafka, h.onQueues},
		{files, h.fromFiles},
	} {
		if !part.wanted {
			continue
		}
		if err := part.open(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// owner is this instance's name, the same after a restart where it can be.
func (h *wiring) owner() string {
	if name := h.own.Instance; name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	if _, port, _ := net.SplitHostPort(h.Config.Listen); port != "0" { // one that listens where it can has no other name
		return host + "/" + h.Config.Listen
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// embedded puts the embedded database behind every role but the topics.
func (h *wiring) embedded(ctx context.Context, s *stores) error {
	w := h.own
	f, err := h.File(ctx)
	if err != nil {
		return err
	}
	s.letters, s.projects = f.DeadLetters, f.Projects
	if h.own.RedisURL() == "" {
		rows, err := sqlitetable.New(ctx, f.DB, tablewindow.Spec())
		if err != nil {
			return err
		}
		blobs, err := sqlitetable.New(ctx, f.DB, tablewindow.BlobSpec())
		if err != nil {
			return err
		}
		o := window.Options{Window: w.Window, Lease: w.Lease, Owner: h.owner(), Now: h.Now}
		if s.windows, err = tablewindow.New(ctx, rows, blobs, tablewindow.Options{Options: o}); err != nil {
			return err
		}
	}
	if !w.Search.Enabled || w.Search.URL != "" {
		return nil
	}
	index, err := sqlitesearch.New(f.DB, sqlitesearch.Options{Now: h.Now}, s.events, s.mentions)
	if err != nil {
		return err
	}
	s.index = index
	return nil
}

// fromFiles reads GDELT files from a folder, or from lists behind a URL.
func (h *wiring) fromFiles(ctx context.Context, s *stores) error {
	c := &h.own.Files
	o := gdelt.Options{Every: c.Every, Quiet: c.Quiet, Since: c.Since, Remove: c.Remove, Header: h.own.Header, Pipeline: filesIntake, Log: h.Log, Now: h.Now}
	if c.Quiet == 0 {
		o.Quiet = -1
	}
	known, err := sqlitetable.New(ctx, h.Opened().DB, tableprogress.Spec())
	if err != nil {
		return err
	}
	add := func(feed, name string, open func(progress.Store, gdelt.Options) (*gdelt.Source, error)) error {
		files, err := tableprogress.New(known, feed, tableprogress.Options{Now: h.Now})
		if err != nil {
			return err
		}
		o.Pipeline = name
		source, err := open(files, o)
		if err != nil {
			return err
		}
		h.OnClose(source.Close)
		s.intakes = append(s.intakes, windows.Intake{Name: name, Source: source})
		s.files = append(s.files, windowsapi.FileSource{Name: name, Source: source})
		h.Uses = append(h.Uses, "files: "+source.String())
		return nil
	}
	if c.Folder != "" {
		err := add("folder", filesIntake, func(files progress.Store, o gdelt.Options) (*gdelt.Source, error) {
			return gdelt.NewFolder(c.Folder, files, s.letters, o)
		})
		if err != nil {
			return err
		}
	}
	if c.URL == "" {
		return nil
	}
	guard, err := httpguard.New(httpguard.Options{Allow: c.AllowPrivate, Plain: c.HTTP, Proxy: true,
		AllowBy: "windows.files.allow_private", PlainBy: "windows.files.http"})
	if err != nil {
		return err
	}
	return add("url", filesIntake+"-url", func(files progress.Store, o gdelt.Options) (*gdelt.Source, error) {
		return gdelt.NewURL(string(c.URL), filepath.Join(h.Config.Data, filesIntake), guard, files, s.letters, o)
	})
}
