package table_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/tidemill/tidemill/state/table"
	"github.com/tidemill/tidemill/state/table/memorytable"
)

type job struct {
	Key     string
	Done    bool
	Created time.Time
}

// A role says what its record is; its rules are transactions.
func Example() {
	ctx := context.Background()
	jobs, err := memorytable.New(memorytable.NewDB(), table.Spec[job]{
		Name: "job",
		Fields: []table.Field[job]{
			{Name: "key", At: func(j *job) any { return &j.Key }},
			{Name: "done", At: func(j *job) any { return &j.Done }},
			{Name: "created", At: func(j *job) any { return &j.Created }},
		},
		Orders: []table.Order{{Name: "oldest", By: []string{"done", "created"}}},
		Count:  table.Counter[job]{From: []string{"done"}, Of: func(j *job) string { return map[bool]string{true: "done", false: "waiting"}[j.Done] }},
	})
	if err != nil {
		log.Fatal(err)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	err = jobs.Update(ctx, func(tx table.Tx[job], _ *memorytable.Tx) error {
		return tx.Put([]*job{{Key: "b", Created: noon}, {Key: "a", Created: noon.Add(time.Second)}, {Key: "c", Created: noon.Add(time.Minute)}})
	})
	if err != nil {
		log.Fatal(err)
	}
	// The two oldest that wait are done.
	err = jobs.Update(ctx, func(tx table.Tx[job], _ *memorytable.Tx) error {
		page, err := tx.Page(table.Query[job]{By: "oldest", Where: []table.Cond{{Field: "done", Op: "=", Value: false}}, Most: 2})
		if err != nil {
			return err
		}
		for _, j := range page {
			fmt.Println("doing", j.Key)
			j.Done = true
		}
		return tx.Put(page, "done")
	})
	if err != nil {
		log.Fatal(err)
	}
	counts, err := jobs.Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(counts)
	// Output:
	// doing b
	// doing a
	// map[done:2 waiting:1]
}
