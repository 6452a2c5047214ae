package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestTheExampleRuns(t *testing.T) {
	redis, broker := testenv.Start(t, testenv.PrivateRedis), testenv.Start(t, testenv.PrivateMosquitto)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	far, err := mqttconn.Open(t.Context(), []string{broker.URL}, mqttconn.Options{ClientID: "far"})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close(context.Background())
	if err := far.Subscribe(t.Context(), mqttconn.Subscription{Filter: "syslog", QoS: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, redis.Addr, broker.URL) }()
	id, err := client.Do(ctx, client.B().Xadd().Key("syslog-stream").Id("*").FieldValue().FieldValue("payload", `{"text": "hello"}`).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	into := make([]mqttconn.Delivery, 1)
	if _, err := far.Receive(ctx, into); err != nil {
		t.Fatal(err)
	}
	if want := `{"message":{"payload":{"text": "hello"}},"redis":{"payload":{"id":"` + id + `"}}}`; string(into[0].Payload) != want {
		t.Errorf("got %s, want %s", into[0].Payload, want)
	}
	ack := strings.ReplaceAll(`{"id":"ID","ack":true}`, "ID", id)
	if err := far.Publish(ctx, []mqttconn.Message{{Topic: "syslog/acknowledgement", Payload: []byte(ack), QoS: 1}}); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := client.Do(ctx, client.B().Xlen().Key("syslog-stream").Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond) // Redis has no event for it
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
