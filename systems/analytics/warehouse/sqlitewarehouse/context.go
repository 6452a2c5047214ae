package sqlitewarehouse

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/systems/analytics/event"
)

// texts are the columns of an event that are mostly empty, and sizes the numeric ones. They
// share the column context, as one JSON object of the non-empty ones: each argument saved is
// 0.15 µs saved, for two dozen columns.
var texts = [...]struct {
	name string
	of   func(*event.Event) *string
}{
	{"anonymous_id", func(e *event.Event) *string { return &e.AnonymousID }},
	{"user_id", func(e *event.Event) *string { return &e.UserID }},
	{"session_id", func(e *event.Event) *string { return &e.SessionID }},
	{"url", func(e *event.Event) *string { return &e.URL }},
	{"referrer", func(e *event.Event) *string { return &e.Referrer }},
	{"page_title", func(e *event.Event) *string { return &e.PageTitle }},
	{"page_path", func(e *event.Event) *string { return &e.PagePath }},
	{"device_type", func(e *event.Event) *string { return &e.DeviceType }},
	{"browser", func(e *event.Event) *string { return &e.Browser }},
	{"browser_version", func(e *event.Event) *string { return &e.BrowserVersion }},
	{"os", func(e *event.Event) *string { return &e.OS }},
	{"os_version", func(e *event.Event) *string { return &e.OSVersion }},
	{"country", func(e *event.Event) *string { return &e.Country }},
	{"region", func(e *event.Event) *string { return &e.Region }},
	{"city", func(e *event.Event) *string { return &e.City }},
	{"language", func(e *event.Event) *string { return &e.Language }},
	{"timezone", func(e *event.Event) *string { return &e.Timezone }},
	{"sdk_name", func(e *event.Event) *string { return &e.SDKName }},
	{"sdk_version", func(e *event.Event) *string { return &e.SDKVersion }},
	{"batch_id", func(e *event.Event) *string { return &e.BatchID }},
	{"ip", func(e *event.Event) *string { return &e.IP }},
	{"user_agent", func(e *event.Event) *string { return &e.UserAgent }},
}

var sizes = [...]struct {
	name string
	of   func(*event.Event) *uint16
}{
	{"screen_width", func(e *event.Event) *uint16 { return &e.ScreenWidth }},
	{"screen_height", func(e *event.Event) *uint16 { return &e.ScreenHeight }},
}

// appendContext appends the context of e to b, or nothing if all of it is empty. U+FFFD
// replaces text that is not UTF-8, which JSON cannot hold.
func appendContext(b []byte, e *event.Event) []byte {
	start := len(b)
	name := func(n string) {
		if len(b) == start {
			b = append(b, '{')
		} else {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), n...), '"', ':')
	}
	for i := range texts {
		if v := *texts[i].of(e); v != "" {
			name(texts[i].name)
			b, _ = jsontext.AppendQuote(b, v) // its error is about the U+FFFD
		}
	}
	for i := range sizes {
		if v := *sizes[i].of(e); v != 0 {
			name(sizes[i].name)
			b = strconv.AppendUint(b, uint64(v), 10)
		}
	}
	if len(b) > start {
		b = append(b, '}')
	}
	return b
}

// readContext fills e with what appendContext wrote.
func readContext(b []byte, e *event.Event) error {
	if len(b) == 0 {
		return nil
	}
	var values map[string]jsontext.Value
	if err := json.Unmarshal(b, &values); err != nil {
		return fmt.Errorf("read the context of event %s: %w", e.ID, err)
	}
	for i := range texts {
		if v, ok := values[texts[i].name]; ok {
			if err := json.Unmarshal(v, texts[i].of(e)); err != nil {
				return fmt.Errorf("read %s of event %s: %w", texts[i].name, e.ID, err)
			}
		}
	}
	for i := range sizes {
		if v, ok := values[sizes[i].name]; ok {
			if err := json.Unmarshal(v, sizes[i].of(e)); err != nil {
				return fmt.Errorf("read %s of event %s: %w", sizes[i].name, e.ID, err)
			}
		}
	}
	return nil
}
