package jobs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/embedded/jobs"
)

// A queue with workers: the mail is sent once, however often it is added.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	folder, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	q, err := jobs.Open(ctx, filepath.Join(folder, "shop.db"), jobs.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	mail := &tidemill.Message{To: "mail", ID: "welcome-7", Payload: []byte("ann@example.com")}
	if err := q.Add(ctx, mail, mail); err != nil {
		log.Fatal(err)
	}
	err = q.Work(ctx, "mail", func(_ context.Context, job *tidemill.Message) error {
		fmt.Printf("Welcome, %s!\n", job.Payload)
		stop() // enough for today
		return nil
	}, jobs.Workers{})
	if err != nil {
		log.Fatal(err)
	}
	// Output: Welcome, ann@example.com!
}
