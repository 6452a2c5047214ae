package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
	"github.com/tidemill/tidemill/state/window"
	"github.com/tidemill/tidemill/state/window/rediswindow"
)

// binary makes the product play a part as shipped: the real binary with its settings in the
// environment. Its progress is read from the window store, which also closes windows.
func (b *bench) binary(ctx context.Context, p play, name, in, folder, profile string) (looks []spent, err error) {
	store, err := b.store()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.bin, "run", "windows", "--no-auth", "--data", folder, "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "TIDEMILL_LOG_LEVEL=error", "TIDEMILL_WINDOWS_SEARCH_ENABLED=false", "TIDEMILL_WINDOWS_WINDOW="+openFor.String(),
		"TIDEMILL_WINDOWS_KAFKA=kafka://"+b.services.Addr("kafka"), "TIDEMILL_WINDOWS_REDIS_URL=redis://"+b.services.Addr("redis"), "SERVICE_NAME="+name,
		"KAFKA_TOPIC_ADAPTER_EVENT="+in+event, "KAFKA_TOPIC_ADAPTER_MENTION="+in+mention, "KAFKA_TOPIC_PROCESSOR_EVENT="+name+event, "KAFKA_TOPIC_PROCESSOR_MENTION="+name+mention,
		"TIDEMILL_WINDOWS_TRANSACTIONAL="+strconv.FormatBool(p.whole))
	for setting, n := range map[string]int{"TIDEMILL_WINDOWS_PAGE": b.page, "TIDEMILL_WINDOWS_STORE": b.together} {
		if n > 0 {
			cmd.Env = append(cmd.Env, setting+"="+strconv.Itoa(n))
		}
	}
	if b.memory > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("GOMEMLIMIT=%dMiB", b.memory))
	}
	prog, err := process.Listening(cmd)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, prog.Stop()) }()
	profiled := make(chan error, 1)
	go func() { profiled <- prog.Profile(profile, 4) }()
	look := func(done int64) {
		looks = append(looks, spent{b.services.Look(prog), int(done)})
	}
	if p.what != "deliver" { // a new member of a group waits for its partitions: the measurement begins with the first record
		for _, enough := range []int64{1, int64(p.records)} {
			stats, err := until(ctx, prog, store, func(s *window.Stats) bool { return s.Active.Records >= enough })
			if err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
			look(stats.Active.Records)
		}
	}
	if p.what != "store" {
		if p.what == "deliver" {
			look(0)
		}
		if ok, err := store.CloseNow(ctx, batchName); !ok || err != nil {
			return nil, fmt.Errorf("there is no window to be closed: %w", err)
		}
		if _, err := until(ctx, prog, store, func(s *window.Stats) bool {
			return s.Active.Windows+s.Ready.Windows+s.Leased.Windows+s.Parked.Windows == 0
		}); err != nil {
			return nil, fmt.Errorf("deliver: %w", err)
		}
		look(int64(looks[len(looks)-1].done + p.records))
	}
	return looks, errors.Join(<-profiled, audited(ctx, prog))
}

// store is the window store of contenders on servers.
func (b *bench) store() (*rediswindow.Store, error) {
	return rediswindow.New(b.redis, rediswindow.Options{Options: window.Options{Window: openFor}})
}

// until polls the window store.
func until(ctx context.Context, prog *process.Program, store window.Inspector, done func(*window.Stats) bool) (window.Stats, error) {
	end := time.After(process.Patience)
	for {
		stats, err := store.Stats(ctx)
		if err != nil || done(&stats) {
			return stats, err
		}
		select {
		case <-ctx.Done():
			return stats, ctx.Err()
		case <-prog.Ended():
			return stats, errors.New("it ended before all was done")
		case <-end:
			return stats, fmt.Errorf("not all of it was done in %v: the store has %+v", process.Patience, stats)
		case <-time.After(5 * time.Millisecond): // between two polls of another process
		}
	}
}

// audited checks the books, which may be a moment behind the store.
func audited(ctx context.Context, prog *process.Program) error {
	p := product.Product{Program: prog}
	var all []product.Books
	for range 50 {
		var balanced bool
		var err error
		if all, balanced, err = p.Books(); err != nil || balanced {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("the books do not balance: %+v", all)
}
