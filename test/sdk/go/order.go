package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/segmentio/analytics-go/v3"
)

// failures are those that a library reported.
type failures struct {
	mu     sync.Mutex
	all    []string
	queued sync.WaitGroup // messages of analytics-go that have not ended
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, err.Error())
}

// Success and Failure are the callbacks of analytics-go for its messages.
func (f *failures) Success(analytics.Message) { f.queued.Done() }
func (f *failures) Failure(_ analytics.Message, err error) {
	f.add(err)
	f.queued.Done()
}

// order sends changes of persons with a library, as order.mjs does.
func order(library, url, key string, numbers []string) error {
	var n [3]int // users, changes, milliseconds
	for i, s := range numbers {
		var err error
		if n[i], err = strconv.Atoi(s); err != nil {
			return err
		}
	}
	failed := &failures{all: []string{}}
	each := func(change func(user string, n int) error) error {
		for done := 0; done < n[1]; {
			row := min(1+done%4, n[1]-done)
			for u := range n[0] {
				for k := range row {
					if err := change(fmt.Sprintf("%s-%d", library, u), done+k); err != nil {
						return err
					}
				}
			}
			done += row
			time.Sleep(time.Duration(n[2]*row/n[1]) * time.Millisecond) // a user's pause between two changes
		}
		return nil
	}
	do := map[string]func() error{
		"analytics-go":   func() error { return segmentOrder(url, key, failed, each) },
		"cloudevents-go": func() error { return cloudEventsOrder(url, key, failed, each) },
	}[library]
	if err := do(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"failures": failed.all})
}

func segmentOrder(url, key string, failed *failures, each func(func(string, int) error) error) error {
	client, err := analytics.NewWithConfig(key, analytics.Config{Endpoint: url, Interval: 500 * time.Millisecond, Callback: failed})
	if err != nil {
		return err
	}
	if err := each(func(user string, n int) error {
		failed.queued.Add(1)
		return client.Enqueue(analytics.Identify{UserId: user, Traits: analytics.NewTraits().Set("n", n)})
	}); err != nil {
		return err
	}
	failed.queued.Wait() // Close drops messages that wait for another try
	return client.Close()
}

// cloudEventsOrder makes each user's events wait for the earlier ones.
func cloudEventsOrder(url, key string, failed *failures, each func(func(string, int) error) error) error {
	client, err := cloudevents.NewClientHTTP(cehttp.WithTarget(url+"/v1/cloudevents"), cehttp.WithHeader("X-Api-Key", key))
	if err != nil {
		return err
	}
	ctx := cloudevents.ContextWithRetriesConstantBackoff(context.Background(), 500*time.Millisecond, 100)
	users := map[string]chan cloudevents.Event{}
	var sent sync.WaitGroup
	err = each(func(user string, n int) error {
		e := cloudevents.NewEvent()
		e.SetID(fmt.Sprintf("%s-%d", user, n))
		e.SetSource("/order")
		e.SetSubject(user)
		e.SetType("changed")
		e.SetTime(time.Now())
		if err := e.SetData(cloudevents.ApplicationJSON, map[string]any{"n": n, "$set": map[string]int{"n": n}, "$set_once": map[string]int{"first": n}}); err != nil {
			return err
		}
		if users[user] == nil {
			events := make(chan cloudevents.Event, 1000)
			users[user] = events
			sent.Go(func() {
				for e := range events {
					if err := client.Send(ctx, e); !cloudevents.IsACK(err) {
						failed.add(err)
					}
				}
			})
		}
		users[user] <- e
		return nil
	})
	for _, events := range users {
		close(events)
	}
	sent.Wait()
	return err
}
