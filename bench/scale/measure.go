package scale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemill/tidemill/bench/process"
	"github.com/tidemill/tidemill/bench/product"
	"github.com/tidemill/tidemill/bench/rounds"
)

// fleet are instances of one system, with their servers.
type fleet struct {
	*shape
	servers   *process.Services
	partner   *process.Program
	instances []*product.Product
}

// measure fills r.
func (s *shape) measure(ctx context.Context, bin, folder, profile string, events int, r *result) (err error) {
	f := &fleet{shape: s}
	defer func() { err = errors.Join(err, f.stop()) }()
	if err := f.start(ctx, bin, folder); err != nil {
		return err
	}
	if err := f.steer("pause"); err != nil {
		return err
	}
	if err := f.load(ctx, events); err != nil {
		return err
	}
	if err := f.servers.Rest(ctx); err != nil {
		return err
	}
	before, err := f.settled()
	if err != nil {
		return err
	}
	profiled := make(chan error, 1)
	go func() { profiled <- f.instances[0].Profile(profile, 4) }()
	cpu, began := f.look(), time.Now()
	if err := errors.Join(f.steer("resume"), f.drained(ctx, events)); err != nil {
		return err
	}
	took, spent := time.Since(began), f.look()
	r.Rate = float64(events) / took.Seconds()
	each := func(name string) float64 { return (spent[name] - cpu[name]) / float64(events) }
	r.Own, r.Redis, r.Kafka = each(own), each("redis")+each("redis-cluster"), each("kafka")
	r.Postgres, r.ClickHouse, r.Broker = each("postgres"), each("clickhouse"), each("mosquitto")
	r.All = r.Own + r.Redis + r.Kafka + r.Postgres + r.ClickHouse + r.Broker
	r.RedisDisk, r.KafkaDisk = each(disk+"redis")+each(disk+"redis-cluster"), each(disk+"kafka")
	r.PostgresDisk, r.ClickHouseDisk, r.Network = each(disk+"postgres"), each(disk+"clickhouse"), each(network)
	after, err := f.settled()
	if err != nil {
		return err
	}
	if len(after) > 1 {
		for i := range after {
			after[i] -= before[i]
		}
		r.Least = slices.Min(after) * float64(len(after)) / sum(slices.Values(after))
	}
	return errors.Join(<-profiled, f.counted(events))
}

func sum(all iter.Seq[float64]) (s float64) {
	for v := range all {
		s += v
	}
	return s
}

// start starts everything.
func (f *fleet) start(ctx context.Context, bin, folder string) (err error) {
	self, err := rounds.Self(ctx, "scale")
	if err != nil {
		return err
	}
	if f.partner, err = process.Listening(self); err != nil {
		return err
	}
	if f.servers, err = process.StartServices(ctx, filepath.Join(folder, "servers"), []string{"REDIS_SETTINGS=--auto-aof-rewrite-percentage 0"}, f.shape.servers...); err != nil {
		return err
	}
	config := []byte(strings.Replace(f.system.Config, "PARTNER", f.partner.URL, 1))
	for i := range f.shape.instances {
		env := append(f.servers.Settings(), f.settings...)
		if f.system.Streams() {
			for _, variable := range []string{"HEALTH_PORT", "METRICS_PORT"} {
				port, err := process.FreePort()
				if err != nil {
					return err
				}
				env = append(env, variable+"="+port)
			}
			env = append(env, "REDIS_ADDRESSES="+f.servers.Addr("redis"), "MQTT_QOS=1", "MQTT_USE_USER_PREFIX=false", "MQTT_SUBSCRIBE_TOPIC=none")
		}
		p, err := product.Start(ctx, bin, f.system.Name, filepath.Join(folder, strconv.Itoa(i)), config, env...)
		if err != nil {
			return err
		}
		f.instances = append(f.instances, p)
	}
	return nil
}

func (f *fleet) stop() (err error) {
	for _, p := range f.instances {
		err = errors.Join(err, p.Stop())
	}
	if f.servers != nil {
		f.servers.Stop()
	}
	if f.partner != nil {
		err = errors.Join(err, f.partner.Stop())
	}
	return err
}

// steer pauses or resumes all pipelines of all instances.
func (f *fleet) steer(verb string) error {
	for _, p := range f.instances {
		all, err := p.Settled()
		if err != nil {
			return err
		}
		for name := range all {
			if err := p.Steer(name, verb); err != nil {
				return err
			}
		}
	}
	return nil
}

// settled is what each instance has settled so far.
func (f *fleet) settled() (all []float64, err error) {
	for _, p := range f.instances {
		of, err := p.Settled()
		if err != nil {
			return nil, err
		}
		all = append(all, sum(maps.Values(of)))
	}
	return all, nil
}

// Names of what is looked at, beside the servers'.
const (
	own     = "own"
	network = "network"
	disk    = "disk of "
)

// look is what was used so far: µs of CPU, and bytes.
func (f *fleet) look() map[string]float64 {
	all := map[string]float64{network: loopback()}
	for _, p := range f.instances {
		all[own] += float64(process.CPU(p.PID()).Microseconds())
	}
	for _, name := range f.shape.servers {
		all[name] = float64(f.servers.CPU(name).Microseconds())
		all[disk+name] = f.servers.Written(name)
	}
	return all
}

// loopback is how many bytes went over the loopback interface so far.
func loopback() float64 {
	b, _ := os.ReadFile("/proc/net/dev")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "lo:"); ok {
			n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return n
		}
	}
	return 0
}

// last is the pipeline, queue or system in whose books an event has come to its end.
func (s *shape) last() string { return cmp.Or(s.system.Pipeline, s.system.Name) }

// drained waits until all events have come to their end, each in the way that it should.
func (f *fleet) drained(ctx context.Context, events int) error {
	const patience, pause = time.Minute, 100 * time.Millisecond
	for at, since := uint64(0), time.Now(); at < uint64(events); {
		all, _, err := f.instances[0].Books()
		if err != nil {
			return err
		}
		for _, b := range all {
			if b.Skipped > 0 {
				return fmt.Errorf("%d events of %s were skipped", b.Skipped, b.Name())
			}
			if b.Name() == f.last() && b.Delivered > at {
				at, since = b.Delivered, time.Now()
			}
		}
		if time.Since(since) > patience {
			return fmt.Errorf("nothing has come to its end for %v: %+v", patience, all)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause): // between two looks at another process
		}
	}
	return f.instances[0].Drained(ctx, pause)
}

// counted holds that delivery's partner has each event.
func (f *fleet) counted(events int) error {
	if f.system.Name != "delivery" {
		return nil
	}
	b, err := f.partner.Get("/came")
	if err == nil && string(b) != strconv.Itoa(events) {
		err = fmt.Errorf("the partner has %s of %d events", b, events)
	}
	return err
}
