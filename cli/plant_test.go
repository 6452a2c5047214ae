package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
)

// plant puts into a data folder what no door lets in:
//
//	plant DATA event PROJECT DISTINCT-ID…   events of a project that need not exist
//	plant DATA garbage ID…                  jobs that are no events
//	plant DATA unbalance                    an accepted event that there never was
func plant() {
	if err := doPlant(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(1)
	}
}

func doPlant(ctx context.Context, data, what string, args []string) (err error) {
	db, err := sqlitedb.Open(ctx, connect.DatabasePath(data), sqlitedb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	queues, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	if err != nil {
		return err
	}
	switch what {
	case "event":
		projects, err := sqlitetable.New(ctx, db, tableproject.Spec())
		if err != nil {
			return err
		}
		handler, err := analyticsingest.New(analyticsingest.Options{Options: endpoint.Options{Projects: tableproject.New(projects)}, Intake: queues})
		if err != nil {
			return err
		}
		var events [][]byte
		for _, d := range args[1:] {
			b, err := json.Marshal(map[string]any{"event": "planted", "distinct_id": d})
			if err != nil {
				return err
			}
			events = append(events, b)
		}
		got, err := handler.Accept(ctx, project.ID(args[0]), events)
		if len(got.Refused) > 0 {
			err = errors.Join(err, errors.New(got.Refused[0]))
		}
		return err
	case "garbage":
		for _, id := range args {
			if err := queues.Add(ctx, []*tidemill.Message{{ID: id, To: "analytics", Payload: []byte("\xff\x00 no event\x1b[2J")}}, nil); err != nil {
				return err
			}
		}
		return nil
	case "unbalance":
		return db.Write(ctx, func(tx *sqlitedb.Tx) error {
			n, err := tx.Exec("UPDATE queue SET next = next + 1")
			if err == nil && n != 1 {
				err = fmt.Errorf("%d queues in %s, want 1", n, filepath.Base(data))
			}
			return err
		})
	}
	return fmt.Errorf("plant what? %q", what)
}
