// Makes one call of each kind with an unmodified library: go run . LIBRARY URL KEY
// With USERS CHANGES MILLISECONDS behind these it sends changes of persons instead.
package main

import (
	"context"
	"fmt"
	"os"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/segmentio/analytics-go/v3"
)

func main() {
	do := map[string]func(url, key string) error{"analytics-go": segment, "cloudevents-go": cloudEvents}[os.Args[1]]
	if len(os.Args) > 4 {
		do = func(url, key string) error { return order(os.Args[1], url, key, os.Args[4:7]) }
	}
	if err := do(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// segment sets campaign and program once for all calls: the library sends them beside the list
// of calls.
func segment(url, key string) error {
	client, err := analytics.NewWithConfig(key, analytics.Config{Endpoint: url, DefaultContext: &analytics.Context{
		Campaign: analytics.CampaignInfo{Name: "spring", Source: "mail"}, App: analytics.AppInfo{Name: "Shop", Version: "2"}}})
	if err != nil {
		return err
	}
	const user = "analytics-go-user"
	for _, call := range []analytics.Message{
		analytics.Identify{UserId: user, AnonymousId: "analytics-go-anon", Traits: analytics.NewTraits().Set("plan", "pro")},
		analytics.Track{UserId: user, Event: "bought", Properties: analytics.NewProperties().Set("n", 1)},
		analytics.Page{UserId: user, Name: "Home", Properties: analytics.NewProperties().SetURL("https://shop.example/").Set("category", "Docs")},
		analytics.Group{UserId: user, GroupId: "acme", Traits: analytics.NewTraits().Set("seats", 5)},
	} {
		if err := client.Enqueue(call); err != nil {
			return err
		}
	}
	return client.Close()
}

func cloudEvents(url, key string) error {
	client, err := cloudevents.NewClientHTTP(cehttp.WithTarget(url+"/v1/cloudevents"), cehttp.WithHeader("X-Api-Key", key))
	if err != nil {
		return err
	}
	for mode, encoded := range map[string]func(context.Context) context.Context{"binary": cloudevents.WithEncodingBinary, "structured": cloudevents.WithEncodingStructured} {
		e := cloudevents.NewEvent()
		e.SetID(mode)
		e.SetSource("/cloudevents-go")
		e.SetType("order." + mode)
		e.SetDataSchema("https://shop.example/order")
		e.SetExtension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		e.SetExtension("region", "köln")
		if err := e.SetData(cloudevents.ApplicationJSON, map[string]any{"total": 12.5}); err != nil {
			return err
		}
		for range 2 { // one event, sent again
			if err := client.Send(encoded(context.Background()), e); !cloudevents.IsACK(err) {
				return fmt.Errorf("%s: %w", mode, err)
			}
		}
	}
	return nil
}
