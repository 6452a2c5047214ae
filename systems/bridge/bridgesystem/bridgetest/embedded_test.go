//go:build unix

package bridgetest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/systems"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
)

var ofEmbedded = []scenario{
	{"the embedded broker", []string{"TIDEMILL_BRIDGE_BROKER_LISTEN", "TIDEMILL_BRIDGE_BROKER_USER", "TIDEMILL_BRIDGE_BROKER_PASSWORD"}, embedded},
}

func embedded(t *testing.T, g *given) {
	addr := "127.0.0.1:" + strconv.Itoa(port(t))
	settings := env{"TIDEMILL_BRIDGE_BROKER_LISTEN": addr, "TIDEMILL_BRIDGE_BROKER_USER": "device", "TIDEMILL_BRIDGE_BROKER_PASSWORD": "canary"}
	g.note(settings)
	c, err := systems.All().Settings().Load(config.Layers{Getenv: func(k string) string { return settings[k] }, Flags: map[string]string{"data": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := connect.Open(t.Context(), systems.All(), c, connect.Options{Systems: []string{"bridge"}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- in.Run(ctx, nil, func() { close(ready) }) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}()
	<-ready
	open := func(password string) (*mqttconn.Client, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return mqttconn.Open(ctx, []string{"tcp://" + addr}, mqttconn.Options{User: "device", Password: tidemill.NewSecret(password)})
	}
	if _, err := open("wrong"); tidemill.KindOf(err) != tidemill.Credentials {
		t.Errorf("a wrong password: %v", err)
	}
	client, err := open("canary")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Close(ctx)
	}()
	if err := client.Subscribe(t.Context(), mqttconn.Subscription{Filter: "syslog", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	q := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/bridge/entries", strings.NewReader(`{"a":1}`))
	q.Header.Set("Authorization", "Bearer "+token.Reveal())
	w := httptest.NewRecorder()
	in.ServeHTTP(w, q)
	if w.Code/100 != 2 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	waiting, enough := context.WithTimeout(t.Context(), limit)
	defer enough()
	into := make([]mqttconn.Delivery, 1)
	if _, err := client.Receive(waiting, into); err != nil || !strings.Contains(string(into[0].Payload), `{"a":1}`) {
		t.Errorf("the device got %s, %v", into[0].Payload, err)
	}
	q = httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/bridge", nil)
	q.Header.Set("Authorization", "Bearer "+token.Reveal())
	var is bridgeapi.Bridge
	eventually(t, "it is shown as published", func() bool { // the broker's answer may come after its message
		w := httptest.NewRecorder()
		in.ServeHTTP(w, q)
		if err := json.Unmarshal(w.Body.Bytes(), &is); err != nil {
			t.Fatalf("%v: %d %s", err, w.Code, w.Body)
		}
		return is.Published == 1
	})
	if is.State != "running" || is.Stream != "" || is.Topic != "syslog" || is.Length != 1 || is.Pending != 1 || is.Oldest == nil || len(is.Consumers) != 0 { // nobody acknowledges it
		t.Errorf("%+v", is)
	}
}
