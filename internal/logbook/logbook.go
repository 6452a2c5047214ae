// Package logbook knows the records of the product's log: it finds them in the source, makes
// docs/logs.md of them, and holds what a test logs to that page.
//
// A record is a call like
//
//	// Logged when the queue is full and an event was refused.
//	// To do: give the disk room.
//	log.Warn("the queue is full", "queue", name, "count", n)
//
// Its name is the message, a literal that is written in one place. The comment directly above says
// when it is written and, for warn and error, what to do.
package logbook

import (
	"slices"
	"strings"
)

// Record is one kind of record.
type Record struct {
	Name   string // its message
	Level  string // debug, info, warn or error
	Fields []string
	When   string // it is written
	Do     string // what to do; empty for info and debug
	Part   string // of the product
	At     string // file:line of the call
}

// levels, the loudest first.
var levels = []string{"error", "warn", "info", "debug"}

// parts are the parts of the product in the page's order, by the folders of their code. Of several
// the longest counts.
var parts = []struct {
	title   string
	folders []string
}{
	{"Process", []string{"cli", "connect", "config"}},
	{"Engine", []string{"flow"}},
	{"Sources and connections", []string{"source", "sink", "open", "internal/mqttconn", "internal/mqttbroker", "connect/system/reports.go"}},
	{"Queues and state", []string{"state", "embedded"}},
	{"HTTP and ingest", []string{"serve/server.go", "serve/endpoint", "serve/request", "internal/sockets"}},
	{"API, console and access", []string{"serve"}},
	{"Telemetry", []string{"internal/telemetry"}},
	{"Analytics", []string{"systems/analytics"}},
	{"Bridge", []string{"systems/bridge"}},
	{"Delivery", []string{"systems/delivery"}},
	{"CRM", []string{"systems/crm"}},
	{"Windows", []string{"systems/windows"}},
}

// partOf is the part that a file belongs to; empty: to none.
func partOf(file string) (title string) {
	longest := 0
	for _, p := range parts {
		for _, f := range p.folders {
			if (file == f || strings.HasPrefix(file, f+"/")) && len(f) > longest {
				title, longest = p.title, len(f)
			}
		}
	}
	return title
}

// inOrder sorts records as the page has them: by part, then the loudest first.
func inOrder(all []Record) {
	place := func(r Record) int {
		return slices.IndexFunc(parts, func(p struct {
			title   string
			folders []string
		}) bool {
			return p.title == r.Part
		})
	}
	slices.SortFunc(all, func(a, b Record) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		if d := slices.Index(levels, a.Level) - slices.Index(levels, b.Level); d != 0 {
			return d
		}
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
}
