package connect

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/internal/opensearchhttp"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/metrics"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/redisdeadletter"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/rediswindow"
	"github.com/tidemill/tidemill/state/window/sqlitewindow"
	"github.com/tidemill/tidemill/systems/windows"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/progress/sqliteprogress"
	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
	"github.com/tidemill/tidemill/systems/windows/search"
	"github.com/tidemill/tidemill/systems/windows/search/opensearchsearch"
	"github.com/tidemill/tidemill/systems/windows/search/sqlitesearch"
)

// Names of the windows system's own in what it shares with other systems.
const (
	windowsKeys    = "tidemill:window" // the window store's
	windowsQueues  = "tidemill:window-topics"
	windowsLetters = "windows:dlq"
	windowsFiles   = "windows-files" // the intake of files
)

// windowsStores are what stands behind the roles of the windows system.
type windowsStores struct {
	windows  window.Store
	letters  deadletter.Store
	topics   windowsTopics
	events   *search.Schema // of the index
	mentions *search.Schema
	index    search.Store     // nil: nothing is indexed here
	intakes  []windows.Intake // of files
	files    []admin.Feed     // the same
	projects project.Projects // those whose keys may send
	project  uuid.UUID        // of records that come without a key

	// adopt takes over what another program has in that Redis; nil: there is none.
	adopt func(context.Context, string, uuid.UUID) (admin.AdoptedWindows, error)

	redis redisconn.Client // nil: there is none
}

// windowsOn puts the windows system together with its door: windows and dead letters on the Redis
// that is named, topics on the Kafka, the index on the OpenSearch, and embedded what has no
// server.
func (i *Instance) windowsOn(ctx context.Context, api *admin.Parts) error {
	w, o := &i.Config.Windows, i.Host
	stores, err := i.windowsStores(ctx)
	if err != nil {
		return err
	}
	if err := i.Judge(ctx); err != nil {
		return err
	}
	if err := i.windowsProjects(ctx, stores); err != nil {
		return err
	}
	steps, err := i.Config.WindowsSteps(o.Now)
	if err != nil {
		return err
	}
	chain, err := process.New(steps, process.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		return err
	}
	parts := windows.Parts{Intakes: append(stores.topics.intakes, stores.intakes...), Windows: stores.windows, Letters: stores.letters, Chain: chain, Out: stores.topics.out}
	if stores.index != nil {
		parts.Index, parts.Readers = stores.index, stores.topics.readers
	}
	t := &w.Topics
	page := w.Page
	if page == 0 && i.Config.WindowsKafka() == "" { // what is embedded has little memory, and no brokers to wait for
		page = 1000
	}
	sys, err := windows.New(parts, windows.Options{
		Topics: windows.Topics{Event: t.ProcessorEvent, Mention: t.ProcessorMention, Results: t.Results}, Project: stores.project, BySentence: w.SentenceID,
		Header: w.Header, Expect: w.ExpectHeader, Store: w.Store, AtOnce: w.AtOnce, Page: page, Sweep: w.Sweep, Tries: w.Tries, Retry: w.Backoff,
		Record: policy.Retry{Tries: w.Retry.Attempts, Base: w.Retry.Interval, Factor: 1},
		Log:    o.Log, Now: o.Now, Observe: i.Observe})
	if err != nil {
		return err
	}
	if err := i.windowsDoor(ctx, stores); err != nil {
		return err
	}
	i.systems = append(i.systems, sys.System)
	books := sys.Books()
	i.engines.Add(sys.Pipelines, books)
	i.Metrics.MustRegister(metrics.NewWindows(sys))
	overflow, _ := stores.index.(interface{ Overflow() uint64 })
	i.Metrics.MustRegister(metrics.NewIndexOverflow(func() uint64 {
		if overflow == nil { // it has no indices on a server
			return 0
		}
		return overflow.Overflow()
	}))
	for _, f := range stores.files {
		i.Metrics.MustRegister(metrics.NewFiles(f.Name, f.Source))
	}
	i.checks = append(i.checks, func(ctx context.Context) []preflight.Finding { return i.windowsFindings(ctx, sys, stores) })
	api.Systems = append(api.Systems, admin.System{Name: sys.Name, Pipelines: sys.Pipelines, Books: books, Decodes: sys.Decodes, Audit: func(ctx context.Context) (any, bool, error) {
		a, err := sys.Audit(ctx)
		if err != nil {
			return nil, false, err
		}
		return a, a.Balanced, nil
	}})
	api.Windows, api.AdoptWindows, api.WindowsFiles = sys, stores.adopt, stores.files
	if api.Projects == nil {
		api.Projects = stores.projects
	}
	api.AddLetters(windows.Name, stores.letters)
	return nil
}

// windowsStores opens what stands behind the roles.
func (i *Instance) windowsStores(ctx context.Context) (*windowsStores, error) {
	c := i.Config
	w := &c.Windows
	s := &windowsStores{}
	var err error
	if s.events, s.mentions, err = w.Schemas(); err != nil {
		return nil, err
	}
	redis, kafka, files := c.WindowsRedis() != "", c.WindowsKafka() != "", w.Files.Folder != "" || w.Files.URL != ""
	indexed := w.Search.Enabled
	for _, part := range []struct {
		wanted bool
		open   func(context.Context, *windowsStores) error
	}{
		{!redis || files || indexed && w.Search.URL == "", i.windowsEmbedded},
		{redis, i.windowsOnRedis},
		{indexed && w.Search.URL != "", i.windowsOnOpenSearch},
		{kafka, i.windowsOnKafka},
		{!kafka, i.windowsOnQueues},
		{files, i.windowsFromFiles},
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
func (i *Instance) owner() string {
	if name := i.Config.Windows.Instance; name != "" {
		return name
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unnamed"
	}
	if _, port, _ := net.SplitHostPort(i.Config.Listen); port != "0" { // one that listens where it can has no other name
		return host + "/" + i.Config.Listen
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}

// windowsEmbedded puts the embedded database behind every role but the topics.
func (i *Instance) windowsEmbedded(ctx context.Context, s *windowsStores) error {
	w := &i.Config.Windows
	f, err := i.File(ctx)
	if err != nil {
		return err
	}
	s.letters, s.projects = f.Letters, f.Projects
	if i.Config.WindowsRedis() == "" {
		store, err := sqlitewindow.New(ctx, f.DB, window.Options{Window: w.Window, Lease: w.Lease, Owner: i.owner(), Now: i.Now})
		if err != nil {
			return err
		}
		s.windows = store
	}
	if !w.Search.Enabled || w.Search.URL != "" {
		return nil
	}
	index, err := sqlitesearch.New(f.DB, sqlitesearch.Options{Now: i.Now}, s.events, s.mentions)
	if err != nil {
		return err
	}
	s.index = index
	return nil
}

// windowsOnRedis puts a Redis behind windows and dead letters, under keys of their own.
func (i *Instance) windowsOnRedis(ctx context.Context, s *windowsStores) error {
	w, address := &i.Config.Windows, i.Config.WindowsRedis()
	client, err := i.Redis(ctx, address)
	if err != nil {
		return err
	}
	s.redis = client
	store, err := rediswindow.New(client, rediswindow.Options{
		Options: window.Options{Window: w.Window, Lease: w.Lease, Owner: i.owner()}, Prefix: windowsKeys, Shards: w.Shards, TTL: w.Life})
	if err != nil {
		return err
	}
	s.windows = store
	s.adopt = func(ctx context.Context, prefix string, project uuid.UUID) (admin.AdoptedWindows, error) {
		done, err := store.Adopt(ctx, rediswindow.Old{Prefix: prefix, Batch: func(id string) string { return record.NewBatch(project, id).String() }})
		return admin.AdoptedWindows{Batches: done.Batches, Records: done.Records, Lost: done.Lost}, err
	}
	if s.letters, err = redisdeadletter.New(ctx, client, redisdeadletter.Options{
		Options: deadletter.Options{Max: w.DeadMax, Now: i.Now}, Stream: windowsLetters, Pipeline: windows.Delivered}); err != nil {
		return err
	}
	i.Uses = append(i.Uses, fmt.Sprintf("windows: Redis, %s", address))
	return nil
}

// windowsOnOpenSearch puts an OpenSearch or Elasticsearch behind the index.
func (i *Instance) windowsOnOpenSearch(ctx context.Context, s *windowsStores) error {
	c := &i.Config.Windows.Search
	conn, err := opensearchhttp.Open(ctx, string(c.URL), opensearchhttp.Options{})
	if err != nil {
		return err
	}
	i.OnClose(func() error { conn.Close(); return nil })
	index, err := opensearchsearch.New(conn, opensearchsearch.Options{Unmanaged: c.Unmanaged, NewIndices: c.NewIndices, Now: i.Now}, s.events, s.mentions)
	if err != nil {
		return err
	}
	s.index = index
	i.Look(index.Inspect)
	i.Uses = append(i.Uses, fmt.Sprintf("index: %s %s, %s", conn.Product(), conn.Version(), c.URL))
	return nil
}

// windowsFromFiles reads GDELT files from a folder, or from lists behind a URL.
func (i *Instance) windowsFromFiles(ctx context.Context, s *windowsStores) error {
	c := &i.Config.Windows.Files
	o := gdelt.Options{Every: c.Every, Quiet: c.Quiet, Since: c.Since, Remove: c.Remove, Header: i.Config.Windows.Header, Pipeline: windowsFiles, Log: i.Log, Now: i.Now}
	if c.Quiet == 0 {
		o.Quiet = -1
	}
	add := func(feed, name string, open func(*sqliteprogress.Store, gdelt.Options) (*gdelt.Source, error)) error {
		files, err := sqliteprogress.New(ctx, i.Opened().DB, feed, i.Now)
		if err != nil {
			return err
		}
		o.Pipeline = name
		source, err := open(files, o)
		if err != nil {
			return err
		}
		i.OnClose(source.Close)
		s.intakes = append(s.intakes, windows.Intake{Name: name, Source: source})
		s.files = append(s.files, admin.Feed{Name: name, Source: source})
		i.Uses = append(i.Uses, "files: "+source.String())
		return nil
	}
	if c.Folder != "" {
		err := add("folder", windowsFiles, func(files *sqliteprogress.Store, o gdelt.Options) (*gdelt.Source, error) {
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
	return add("url", windowsFiles+"-url", func(files *sqliteprogress.Store, o gdelt.Options) (*gdelt.Source, error) {
		return gdelt.NewURL(string(c.URL), filepath.Join(i.Config.Data, windowsFiles), guard, files, s.letters, o)
	})
}
