//go:build embedded

package systems_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/systems"
)

// TestAServerThatIsLeftOutIsNamed opens each system on each server that it knows, with the clients
// of servers left out.
func TestAServerThatIsLeftOutIsNamed(t *testing.T) {
	if len(system.Servers()) != 0 {
		t.Errorf("built in are %v", system.Servers())
	}
	for _, c := range []struct{ name, system, set, to, want string }{
		{"a warehouse", "analytics", "clickhouse.url", "http://127.0.0.1:1", "ClickHouse"},
		{"persons", "analytics", "postgres.url", "postgres://127.0.0.1:1/x", "PostgreSQL"},
		{"a queue", "analytics", "redis.url", "redis://127.0.0.1:1", "Redis"},
		{"events from a topic", "analytics", "kafka.brokers", "127.0.0.1:1", "Kafka"},
		{"a stream", "bridge", "bridge.redis.addresses", "127.0.0.1:1", "Redis"},
		{"queues of partners", "delivery", "redis.url", "redis://127.0.0.1:1", "Redis"},
		{"a sync log", "crm", "postgres.url", "postgres://127.0.0.1:1/x", "PostgreSQL"},
		{"records from a topic", "windows", "kafka.brokers", "127.0.0.1:1", "Kafka"},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := func(flags map[string]string) error {
				flags["data"], flags["listen"] = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0"
				loaded, err := systems.All().Settings().Load(config.Layers{Flags: flags})
				if err != nil {
					t.Fatal(err)
				}
				in, err := connect.Open(t.Context(), systems.All(), loaded, connect.Options{Systems: []string{c.system}})
				if err == nil {
					err = in.Close()
				}
				return err
			}
			if err := open(map[string]string{c.set: c.to}); err == nil || !strings.Contains(err.Error(), "no client of "+c.want) || !strings.Contains(err.Error(), "-tags embedded") {
				t.Errorf("on %s: %v", c.want, err)
			}
			if err := open(map[string]string{}); err != nil {
				t.Errorf("embedded: %v", err)
			}
		})
	}
}
