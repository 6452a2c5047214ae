// Command bridge embeds a bridge in a program: entries of a Redis stream become MQTT messages,
// and leave the stream when the subscriber acknowledges them.
//
//	go run ./examples/bridge -redis localhost:6379 -broker tcp://localhost:1883
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/sink/mqttsink"
	"github.com/tidemill/tidemill/source/redissource"
	"github.com/tidemill/tidemill/systems/bridge"
)

func main() {
	redis := flag.String("redis", "localhost:6379", "address of Redis")
	broker := flag.String("broker", "tcp://localhost:1883", "address of the MQTT broker")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *redis, *broker); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, redis, broker string) (err error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, ForceSingleClient: true, DisableRetry: true, DisableCache: true})
	if err != nil {
		return err
	}
	defer client.Close()
	source, err := redissource.New(client, redissource.Options{Stream: "syslog-stream", Group: "syslog-group", Consumer: "example", Lease: time.Minute})
	if err != nil {
		return err
	}
	publishers, err := mqttsink.Connect(ctx, 1, []string{broker}, mqttsink.ClientOptions{ClientID: "example-bridge"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, publishers[0].Close(context.Background())) }()
	sink, err := mqttsink.New(publishers, mqttsink.Options{QoS: mqttsink.AtLeastOnce})
	if err != nil {
		return err
	}

	b, err := bridge.New(bridge.Parts{Source: source, Sink: sink, Acks: mqttsink.NewAcks(publishers[0], "syslog/acknowledgement", 1)},
		bridge.Options{Topic: "syslog", Dead: "syslog/dlq", Log: slog.Default(),
			Retry: policy.Retry{Tries: 5, Base: time.Second, Factor: 2, Max: 30 * time.Second}})
	if err != nil {
		return err
	}
	if err := b.Start(ctx); err != nil {
		return err
	}
	fmt.Println("running: XADD syslog-stream '*' payload '{\"text\": \"hello\"}'")
	<-ctx.Done()
	late, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err = b.Stop(late)
	s := b.Stats()
	fmt.Printf("published %d messages, %d entries acknowledged\n", s.Published, s.Acked)
	return err
}
