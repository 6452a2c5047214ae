//go:build e2e

// Package e2e runs the real binary as a user would: unmodified SDKs send to it, it is killed at
// random moments, and the command line shows the result.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/test/process"
)

const key = "e2e-key"

// instance is a process of the embedded default with the project that the SDKs send to.
type instance struct {
	*process.Instance
	t *testing.T
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	return &instance{process.New(t, []string{"analytics", "--project", "shop=" + key}, []string{"TIDEMILL_LOG_LEVEL=warn"}), t}
}

type audit struct {
	Accepted, Delivered, Skipped, Dead, Lost int
	InFlight                                 int `json:"in_flight"`
	Balanced                                 bool
}

// settled waits until nothing is in flight, and returns the books.
func (in *instance) settled() (a audit) {
	in.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		if err := json.Unmarshal(in.Ask("audit", "analytics", "--json"), &a); err != nil {
			in.t.Fatal(err)
		}
		if a.InFlight == 0 {
			return a
		}
		if time.Now().After(deadline) {
			in.t.Fatalf("still in flight after a minute: %+v", a)
		}
		time.Sleep(50 * time.Millisecond) // between two polls of another process
	}
}

// send runs an SDK to its end and returns its report.
func send(ctx context.Context, sdk, addr string, count int, pause time.Duration) error {
	return node(ctx, "send.mjs", sdk, "http://"+addr, key, fmt.Sprint(count), fmt.Sprint(pause.Milliseconds()))
}

// node runs a script with an SDK to its end and returns its report.
func node(ctx context.Context, script, sdk string, args ...string) error {
	return reporting(ctx, sdk, "node", append([]string{script, sdk}, args...)...)
}

// reporting runs a command in test/sdk to its end and returns the report in its last line.
func reporting(ctx context.Context, sdk, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join("..", "sdk")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", sdk, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var report struct{ Failures []string }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		return fmt.Errorf("%s: %w in\n%s", sdk, err, out)
	}
	if len(report.Failures) > 0 {
		return fmt.Errorf("%s reported %d failures, the first: %s", sdk, len(report.Failures), report.Failures[0])
	}
	return nil
}

// offer sends an event with its id once: without an error it is taken in.
func offer(addr, id, event, who string) error {
	r, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/batch", strings.NewReader(fmt.Sprintf(
		`{"events":[{"event":%q,"distinct_id":%q,"event_id":%q,"timestamp":%q}]}`, event, who, id, time.Now().UTC().Format(time.RFC3339Nano))))
	if err != nil {
		return err
	}
	r.Header.Set("X-API-Key", key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the event is answered %s", resp.Status)
	}
	return nil
}
