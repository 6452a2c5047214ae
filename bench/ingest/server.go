package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	_ "net/http/pprof"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/internal/sqlitedb"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/redisledger"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/redisqueue"
	"github.com/tidemill/tidemill/state/queue/sqlitequeue"
	"github.com/tidemill/tidemill/state/table/sqlitetable"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/accept/redisaccept"
	"github.com/tidemill/tidemill/systems/delivery/accept/sqliteaccept"
	"github.com/tidemill/tidemill/systems/delivery/deliveryingest"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

const key = "bench-key"

// server answers, and counts the events it has kept.
type server struct {
	handler http.Handler
	kept    func(context.Context) (int64, error)
	close   func()
}

// serve is the work of a server's process, until it is told to stop.
func serve(ctx context.Context, args []string) (err error) {
	if len(args) != 3 {
		return errors.New("want a server, the address of Redis and a folder")
	}
	var s *server
	kind, args := args[0], args[1:]
	switch run := fmt.Sprint(os.Getpid()); kind {
	case "script":
		s, err = script(ctx, args[0], run)
	case "nothing":
		s = nothing()
	case "redis":
		s, err = onRedis(ctx, args[0], run)
	case "sqlite":
		s, err = onSQLite(ctx, args[1])
	default:
		err = errors.New("there is no such server")
	}
	if err != nil {
		return err
	}
	defer s.close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /kept", func(w http.ResponseWriter, r *http.Request) {
		n, err := s.kept(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, strconv.FormatInt(n, 10))
	})
	mux.Handle("/debug/pprof/", http.DefaultServeMux)
	// The API is not behind the mux: the product has it at the root of its own address.
	return process.Serve(ctx, &http.Server{ReadTimeout: 40 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.handler.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})})
}

// once is the whole of idempotency in one script: the key, and the event in a stream.
var once = rueidis.NewLuaScript(`if not redis.call('SET',KEYS[1],1,'NX','EX',86400) then return 0 end
redis.call('XADD',KEYS[2],'*','body',ARGV[1]) return 1`)

// script is the least that an ingest API can be: net/http, a check that it is JSON, and one
// script.
func script(ctx context.Context, redis, run string) (*server, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	stream := "bare:" + run
	return &server{
		close: client.Close,
		kept: func(ctx context.Context) (int64, error) {
			return client.Do(ctx, client.B().Xlen().Key(stream).Build()).AsInt64()
		},
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err != nil || !json.Valid(b) {
				http.Error(w, "body", http.StatusBadRequest)
				return
			}
			h := sha256.Sum256([]byte(r.Header.Get("X-Idempotency-Key")))
			if err := once.Exec(r.Context(), client, []string{"idem:" + hex.EncodeToString(h[:16]), stream}, []string{rueidis.BinaryString(b)}).Error(); err != nil {
				http.Error(w, "queue", http.StatusServiceUnavailable)
				return
			}
			w.WriteHeader(http.StatusAccepted)
		}),
	}, nil
}

// nothing answers at once.
func nothing() *server {
	var n atomic.Int64
	return &server{close: func() {}, kept: func(context.Context) (int64, error) { return n.Load(), nil },
		handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			n.Add(1)
			w.WriteHeader(http.StatusAccepted)
		})}
}

func onRedis(ctx context.Context, addr, run string) (*server, error) {
	client, err := redisconn.Open(ctx, tidemill.NewSecret("redis://"+addr), redisconn.Options{})
	if err != nil {
		return nil, err
	}
	l, err := redisledger.New(client, redisledger.Options{Name: "ingest", Prefix: run})
	if err != nil {
		return nil, err
	}
	q, err := redisqueue.New(client, redisqueue.Options{Prefix: "q" + run})
	if err != nil {
		return nil, err
	}
	return serveIngest(ctx, l, q, redisaccept.New(l, q), client.Close)
}

func onSQLite(ctx context.Context, dir string) (*server, error) {
	db, err := sqlitedb.Open(ctx, filepath.Join(dir, "tidemill.db"), sqlitedb.Options{})
	if err != nil {
		return nil, err
	}
	keys, err := sqlitetable.New(ctx, db, tableledger.Spec("ingest"))
	if err != nil {
		return nil, err
	}
	l := tableledger.New(keys, tableledger.Options{})
	q, err := sqlitequeue.New(ctx, db, sqlitequeue.Options{})
	if err != nil {
		return nil, err
	}
	return serveIngest(ctx, l, q, sqliteaccept.New(l, keys, q), func() { _ = db.Close() })
}

// serveIngest starts the product's ingest API.
func serveIngest(ctx context.Context, l ledger.Store, q queue.Core, transaction accept.Transaction, close func()) (*server, error) {
	debug.SetGCPercent(400) // as tidemill run does
	p := tableproject.Memory()
	if err := p.Ensure(ctx, project.Project{ID: project.ID("shop"), Name: "shop"}, project.HashOf(tidemill.NewSecret(key))); err != nil {
		return nil, err
	}
	rules, err := event.New(event.Options{})
	if err != nil {
		return nil, err
	}
	a, err := accept.New(l, q, accept.Options{Transaction: transaction})
	if err != nil {
		return nil, err
	}
	h, err := deliveryingest.New(deliveryingest.Options{Options: endpoint.Options{Projects: p}, Acceptor: a, Rules: rules})
	if err != nil {
		return nil, err
	}
	return &server{handler: h, close: close, kept: func(ctx context.Context) (n int64, err error) {
		for _, name := range []string{accept.High, accept.Standard, accept.Low} {
			s, err := q.Stats(ctx, name)
			if err != nil {
				return 0, err
			}
			n += s.Waiting
		}
		return n, nil
	}}, nil
}
