package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems"
)

// shared is what two goroutines write and read.
type shared struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) { s.mu.Lock(); defer s.mu.Unlock(); return s.b.Write(p) }
func (s *shared) String() string              { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// A bridge runs with a port of its own and other topics; who listens to it names the instance,
// and where its token is.
func TestListeningToTheBridgeOfAServer(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data") // where its token is
	config := filepath.Join(dir, "bridge.yaml")
	if err := os.WriteFile(config, []byte("bridge: {broker: {listen: '127.0.0.1:0'}, mqtt: {publish_topic: /out, subscribe_topic: back, qos: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var out, errs shared
	ended := make(chan int, 1)
	getenv := func(string) string { return "" }
	go func() {
		ended <- run(ctx, []string{"run", "bridge", "--config", config, "--data", data, "--listen", "127.0.0.1:0"}, command.Env{Table: systems.All(), In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: getenv})
	}()
	defer func() {
		stop()
		if status := <-ended; status != 0 {
			t.Errorf("the bridge ended with %d: %s", status, &errs)
		}
	}()
	listening := regexp.MustCompile(`listening +(http://\S+)`)
	server := ""
	for end := time.Now().Add(20 * time.Second); server == ""; {
		if m := listening.FindStringSubmatch(out.String()); m != nil && strings.Contains(out.String(), "ready") {
			server = m[1]
		} else if time.Now().After(end) {
			t.Fatalf("it is not ready: %s %s", &out, &errs)
		}
		time.Sleep(10 * time.Millisecond) // of what another goroutine prints nobody tells
	}
	var got, wrong bytes.Buffer
	heard := make(chan int, 1)
	go func() {
		heard <- run(ctx, []string{"bridge", "listen", "--server", server, "--data", data, "--ack", "--count", "3"}, command.Env{Table: systems.All(), In: strings.NewReader(""), Out: &got, Err: &wrong, Getenv: getenv})
	}()
	for sending := true; sending; { // until it has subscribed and heard three
		var sent, failed bytes.Buffer
		if status := run(ctx, []string{"bridge", "send", "--server", server, "--data", data}, command.Env{Table: systems.All(), In: strings.NewReader("up\n"), Out: &sent, Err: &failed, Getenv: getenv}); status != 0 {
			t.Fatalf("send ended with %d: %s", status, &failed)
		}
		select {
		case status := <-heard:
			sending = false
			if status != 0 || strings.Count(got.String(), `{"message":{"payload":"up"}`) != 3 {
				t.Errorf("listen ended with %d: %s%s", status, &got, &wrong)
			}
		case <-time.After(20 * time.Millisecond):
		}
	}
	var shown, failed bytes.Buffer
	if status := run(ctx, []string{"bridge", "status", "--server", server, "--data", data}, command.Env{Table: systems.All(), In: strings.NewReader(""), Out: &shown, Err: &failed, Getenv: getenv}); status != 0 ||
		!strings.Contains(shown.String(), "state         running\nstream        embedded\n") || !strings.Contains(shown.String(), ", to out\n") || !strings.Contains(shown.String(), ", on back\n") {
		t.Errorf("status ended with %d: %s%s", status, &shown, &failed)
	}
	if status, _, errs := call(t, nil, "bridge", "listen", "--server", "http://127.0.0.1:1"); status == 0 || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("without a server: %d, %s", status, errs)
	}
}
