// Package redistest connects tests of Redis backends to the real servers of testenv.
package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/testenv"
)

// Client is a connection to a server of tests.
type Client = rueidis.Client

// Connect opens a client that is closed with the test.
func Connect(t testing.TB, url string) Client {
	t.Helper()
	client, err := redisconn.Open(t.Context(), tidemill.NewSecret(url), redisconn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Each runs a test on one server, and on a cluster of three masters.
func Each(t *testing.T, run func(t *testing.T, client Client)) {
	for name, url := range map[string]func(testing.TB) string{"single": testenv.Redis, "cluster": testenv.RedisCluster} {
		t.Run(name, func(t *testing.T) { run(t, Connect(t, url(t))) })
	}
}

// CPU is the processor time of the server so far, in microseconds.
func CPU(t testing.TB, client Client) (micros float64) {
	t.Helper()
	info, err := client.Do(t.Context(), client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			micros += seconds * 1e6
		}
	}
	return micros
}
