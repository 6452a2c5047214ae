package redissource_test

import (
	"context"
	"log"
	"os"
	"strconv"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/source/redissource"
)

func Example() {
	ctx := context.Background()
	client, err := redisconn.Open(ctx, tidemill.NewSecret("redis://localhost:6379"), redisconn.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	source, err := redissource.New(client, redissource.Options{
		Stream:   "events:incoming",
		Consumer: "processor-" + strconv.Itoa(os.Getpid()),
		Report:   func(r redissource.Report) { log.Print(r.Text) },
	})
	if err != nil {
		log.Fatal(err)
	}
	// The engine does this, and keeps leases and counts:
	messages := []*tidemill.Message{new(tidemill.Message), new(tidemill.Message)}
	n, err := source.Receive(ctx, messages)
	if err != nil {
		log.Fatal(err)
	}
	ends := make([]tidemill.Settlement, n)
	for i, m := range messages[:n] {
		ends[i] = tidemill.Settlement{ID: m.ID, Mark: m.Mark, End: tidemill.Done, Fate: tidemill.Delivered}
	}
	if err := source.Settle(ctx, ends); err != nil {
		log.Fatal(err)
	}
}
