package open_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/ledger/postgresledger"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
)

// outside is a program of another module. What it needs it has from packages that it may
// import, and it may name what its functions are given.
const outside = `package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemill/tidemill/open"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/handler"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	db := must(open.SQLite(ctx, filepath.Join(os.Args[1], "club.db")))
	log := tableledger.New(must(sqlitetable.New(ctx, db, tableledger.Spec("crm"))), tableledger.Options{})
	done := make(chan struct{})
	sys := must(crm.New(crm.Parts{
		Queues:   must(sqlitequeue.New(ctx, db, sqlitequeue.Options{})),
		DeadLetters: must(tabledeadletter.New(ctx, must(sqlitetable.New(ctx, db, tabledeadletter.Spec())), tabledeadletter.Options{})),
		Log:      log,
		Replays:  tableledger.New(must(sqlitetable.New(ctx, db, tableledger.Spec("crm_replay"))), tableledger.Options{}),
		Profiles: must(tableprofile.New(must(sqlitetable.New(ctx, db, tableprofile.Spec())), profile.Options{})),
		Handlers: []handler.Spec{{Name: "scores", Types: []string{"score.*"}, Handler: handler.InTransaction(log,
			func(_ context.Context, tx *open.SQLiteTx, calls []*handler.Call) error {
				_, err := tx.Exec("CREATE TABLE IF NOT EXISTS score(id TEXT)")
				for _, c := range calls {
					if err == nil {
						_, err = tx.Exec("INSERT INTO score VALUES (?)", c.Event.ID)
					}
				}
				return err
			})}},
	}, crm.Options{Create: true, Finished: func(a crm.Attempt) { fmt.Println(a.ID, a.Status); close(done) }}))
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	must(sys.Acceptor().Accept(ctx, [][]byte{[]byte(` + "`" + `{"id":"s-1","type":"score.posted","tenantId":"club","identity":{"externalId":"m-1"},"occurredAt":"2026-01-15T10:00:00Z"}` + "`" + `)}, nil))
	<-done
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	if err := db.Close(); err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
`

func TestAProgramOfAnotherModuleEmbedsASystem(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	name := "module github.com/tidemill/tidemill\n" // what it needs is what we need, at the same versions
	if !strings.HasPrefix(string(mod), name) {
		t.Fatalf("go.mod begins with %.60q", mod)
	}
	text := "module example.com/club\n" + string(mod[len(name):]) + "\nrequire github.com/tidemill/tidemill v0.0.0\nreplace github.com/tidemill/tidemill => " + root + "\n"
	for file, content := range map[string]string{"go.mod": text, "go.sum": string(sum), "main.go": outside} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.Command("go", "run", "-mod=mod", ".", dir)
	run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	var wrong strings.Builder
	run.Stderr = &wrong
	out, err := run.Output()
	if err != nil || string(out) != "s-1 completed\n" {
		t.Fatalf("it ended with %v and said\n%s%s", err, out, wrong.String())
	}
}

func TestServersAreOpened(t *testing.T) {
	url := testenv.Postgres(t)
	db, err := open.Postgres(t.Context(), tidemill.NewSecret(url), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := postgresledger.New(t.Context(), db, postgresledger.Options{Name: "club"}); err != nil {
		t.Fatal(err)
	}
	client, err := open.Redis(t.Context(), tidemill.NewSecret(testenv.Start(t, testenv.PrivateRedis).URL))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	q, err := redisqueue.New(client, redisqueue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Stats(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	var _ queue.Store = q
}

func TestErrorsSayWhatIsWrongAndNoPassword(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	secret := tidemill.NewSecret
	for what, try := range map[string]func() error{
		"SQLite": func() error { _, err := open.SQLite(t.Context(), t.TempDir()); return err },
		"Postgres": func() error {
			_, err := open.Postgres(ctx, secret("postgres://u:hunter2@127.0.0.1:1/x"), 0)
			return err
		},
		"Redis":      func() error { _, err := open.Redis(ctx, secret("redis://u:hunter2@127.0.0.1:1")); return err },
		"Kafka":      func() error { _, err := open.Kafka("kafka://u:hunter2@", nil); return err },
		"ClickHouse": func() error { _, err := open.ClickHouse(ctx, secret("http://u:hunter2@127.0.0.1:1")); return err },
		"Search":     func() error { _, err := open.Search(ctx, secret("http://u:hunter2@127.0.0.1:1")); return err },
		"MQTT":       func() error { _, err := open.MQTT(ctx, 1, nil, open.MQTTOptions{}); return err },
	} {
		if err := try(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
