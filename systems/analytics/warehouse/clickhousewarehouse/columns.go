package clickhousewarehouse

import (
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

// texts are the text columns of the table events, in the table's order. Those with few values
// are LowCardinality.
var texts = [...]struct {
	name string
	low  bool
	of   func(*event.Event) *string
}{
	{"event_name", true, func(e *event.Event) *string { return &e.Name }},
	{"event_type", true, func(e *event.Event) *string { return &e.Type }},
	{"distinct_id", false, func(e *event.Event) *string { return &e.DistinctID }},
	{"anonymous_id", false, func(e *event.Event) *string { return &e.AnonymousID }},
	{"user_id", false, func(e *event.Event) *string { return &e.UserID }},
	{"session_id", false, func(e *event.Event) *string { return &e.SessionID }},
	{"url", false, func(e *event.Event) *string { return &e.URL }},
	{"referrer", false, func(e *event.Event) *string { return &e.Referrer }},
	{"page_title", false, func(e *event.Event) *string { return &e.PageTitle }},
	{"page_path", false, func(e *event.Event) *string { return &e.PagePath }},
	{"device_type", true, func(e *event.Event) *string { return &e.DeviceType }},
	{"browser", true, func(e *event.Event) *string { return &e.Browser }},
	{"browser_version", false, func(e *event.Event) *string { return &e.BrowserVersion }},
	{"os", true, func(e *event.Event) *string { return &e.OS }},
	{"os_version", false, func(e *event.Event) *string { return &e.OSVersion }},
	{"country", true, func(e *event.Event) *string { return &e.Country }},
	{"region", false, func(e *event.Event) *string { return &e.Region }},
	{"city", false, func(e *event.Event) *string { return &e.City }},
	{"language", true, func(e *event.Event) *string { return &e.Language }},
	{"timezone", false, func(e *event.Event) *string { return &e.Timezone }},
	{"sdk_name", true, func(e *event.Event) *string { return &e.SDKName }},
	{"sdk_version", false, func(e *event.Event) *string { return &e.SDKVersion }},
	{"batch_id", false, func(e *event.Event) *string { return &e.BatchID }},
	{"ip", false, func(e *event.Event) *string { return &e.IP }},
	{"user_agent", false, func(e *event.Event) *string { return &e.UserAgent }},
}

// A column of a table, as CREATE and ALTER have it.
type column struct{ name, definition string }

// eventColumns are the columns of the table events. The view does not show the last three.
func eventColumns() []column {
	all := []column{
		{"event_id", "UUID DEFAULT generateUUIDv4()"},
		{"project_id", "UUID"},
		{"person_id", "UUID"},
	}
	for _, t := range texts {
		switch {
		case t.name == "event_type":
			all = append(all, column{t.name, "LowCardinality(String) DEFAULT 'track'"})
		case t.name == "event_name":
			all = append(all, column{t.name, "LowCardinality(String)"})
		case t.low:
			all = append(all, column{t.name, "LowCardinality(String) DEFAULT ''"})
		default:
			all = append(all, column{t.name, "String DEFAULT ''"})
		}
	}
	return append(all,
		column{"screen_width", "UInt16 DEFAULT 0"},
		column{"screen_height", "UInt16 DEFAULT 0"},
		column{"properties", "String DEFAULT '{}' CODEC(ZSTD(1))"},
		column{"user_properties", "String DEFAULT '{}' CODEC(ZSTD(1))"},
		column{"timestamp", "DateTime64(3, 'UTC')"},
		column{"ingested_at", "DateTime64(3, 'UTC') DEFAULT now64(3)"},
		column{"origin", "UInt64 DEFAULT 0"},
		column{"stored_at", "DateTime64(6, 'UTC') DEFAULT ingested_at"},
	)
}

// insertInto is the statement that inserts a block of those columns.
func insertInto(table string, columns []proto.InputColumn) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") FORMAT Native"
}
