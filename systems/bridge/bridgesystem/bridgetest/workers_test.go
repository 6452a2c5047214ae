//go:build unix

package bridgetest

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

var ofWorkers = []scenario{
	{"how many workers there are", []string{"RESOURCE_MIN_WORKERS", "RESOURCE_MAX_WORKERS", "RESOURCE_WORKER_STEP", "RESOURCE_CPU_HIGH", "RESOURCE_CPU_LOW",
		"RESOURCE_MEM_HIGH", "RESOURCE_MEM_LOW", "RESOURCE_CHECK_INTERVAL", "RESOURCE_SCALE_UP_COOLDOWN", "RESOURCE_SCALE_DOWN_COOLDOWN",
		"RESOURCE_PREDICTIVE_SCALING", "RESOURCE_HISTORY_WINDOW", "RESOURCE_PREDICTION_HORIZON"}, workers},
}

// A load of this process is always above never, and never above always.
const (
	never100  = "100"
	almost100 = "99.9"
	always    = "0.000002"
	below     = "0.000001"
)

func workers(t *testing.T, g *given) {
	common := env{"RESOURCE_MIN_WORKERS": "2", "RESOURCE_MAX_WORKERS": "9", "RESOURCE_WORKER_STEP": "3", "RESOURCE_CHECK_INTERVAL": "100ms", "RESOURCE_SCALE_UP_COOLDOWN": "0s",
		"RESOURCE_SCALE_DOWN_COOLDOWN": "300ms", "RESOURCE_PREDICTIVE_SCALING": "false", "RESOURCE_HISTORY_WINDOW": "100", "RESOURCE_PREDICTION_HORIZON": "30s",
		"RESOURCE_CPU_HIGH": never100, "RESOURCE_CPU_LOW": below, "RESOURCE_MEM_HIGH": never100, "RESOURCE_MEM_LOW": below, // neither high nor low
		"PIPELINE_BATCH_SIZE": "1", "PIPELINE_PROCESSING_TIMEOUT": "1h"}
	with := func(t *testing.T, more env) *rig {
		settings := maps.Clone(common)
		maps.Copy(settings, more)
		r := g.start(t, settings)
		if n := r.metric("active_workers"); n > 9 {
			t.Errorf("%v workers at the start, want 9", n)
		}
		return r
	}
	idle := env{"RESOURCE_CPU_LOW": almost100, "RESOURCE_MEM_LOW": almost100}
	is := func(r *rig, n float64) func() bool { return func() bool { return r.metric("active_workers") == n } }
	stays := func(t *testing.T, more env) {
		r := with(t, more)
		never(t, 1200*time.Millisecond, "the number of workers changes", func() bool { return r.metric("active_workers") != 9 })
	}
	falls := func(t *testing.T, more env) { eventually(t, "workers go", is(with(t, more), 2)) }

	t.Run("those without work go, step by step, and come back", func(t *testing.T) {
		r := with(t, idle)
		eventually(t, "the least are left", is(r, 2))
		changes := steps(r)
		if want := [][2]int{{9, 6}, {6, 3}, {3, 2}}; !slices.Equal(changes.by, want) {
			t.Errorf("workers changed by %v, want %v", changes.by, want)
		}
		for i := range changes.at[1:] {
			if d := changes.at[i+1].Sub(changes.at[i]); d < 290*time.Millisecond {
				t.Errorf("two changes are %v apart, want 300ms", d)
			}
		}
		r.broker.set(func() { r.broker.silent = true })
		r.add(200)
		eventually(t, "where entries wait, they come back", is(r, 9))
		r.broker.speak()
	})
	t.Run("not again before the cool-down", func(t *testing.T) {
		r := with(t, env{"RESOURCE_CPU_LOW": almost100, "RESOURCE_MEM_LOW": almost100, "RESOURCE_SCALE_DOWN_COOLDOWN": "1h"})
		eventually(t, "some go", is(r, 6))
		never(t, time.Second, "more go", func() bool { return r.metric("active_workers") < 6 })
	})
	t.Run("none come before theirs", func(t *testing.T) {
		r := with(t, env{"RESOURCE_CPU_LOW": almost100, "RESOURCE_MEM_LOW": almost100, "RESOURCE_SCALE_UP_COOLDOWN": "1h"})
		eventually(t, "the least are left", is(r, 2))
		r.broker.set(func() { r.broker.silent = true })
		r.add(200)
		never(t, time.Second, "they come back", func() bool { return r.metric("active_workers") > 2 })
		r.broker.speak()
	})
	t.Run("it is seldom looked", func(t *testing.T) {
		stays(t, env{"RESOURCE_CPU_LOW": almost100, "RESOURCE_MEM_LOW": almost100, "RESOURCE_CHECK_INTERVAL": "1h"})
	})
	t.Run("the load is neither high nor low", func(t *testing.T) { stays(t, nil) })
	t.Run("only the memory is low", func(t *testing.T) { stays(t, env{"RESOURCE_MEM_LOW": almost100}) })
	t.Run("only the processors are idle", func(t *testing.T) { stays(t, env{"RESOURCE_CPU_LOW": almost100}) })
	t.Run("the processors are busy", func(t *testing.T) { falls(t, env{"RESOURCE_CPU_HIGH": always}) })
	t.Run("the memory is full", func(t *testing.T) { falls(t, env{"RESOURCE_MEM_HIGH": always}) })

	// The least change of the load promises, for so far ahead, more than everything.
	const far = "1000000h"
	t.Run("the trend promises a high load", func(t *testing.T) {
		falls(t, env{"RESOURCE_PREDICTIVE_SCALING": "true", "RESOURCE_PREDICTION_HORIZON": far})
	})
	t.Run("not so soon", func(t *testing.T) {
		stays(t, env{"RESOURCE_PREDICTIVE_SCALING": "true", "RESOURCE_PREDICTION_HORIZON": "1ms"})
	})
	t.Run("one measurement makes no trend", func(t *testing.T) {
		stays(t, env{"RESOURCE_PREDICTIVE_SCALING": "true", "RESOURCE_PREDICTION_HORIZON": far, "RESOURCE_HISTORY_WINDOW": "1"})
	})
	t.Run("nobody asks for it", func(t *testing.T) {
		stays(t, env{"RESOURCE_PREDICTIVE_SCALING": "false", "RESOURCE_PREDICTION_HORIZON": far})
	})
}

// change are those of the number of workers, as they were logged.
type change struct {
	by [][2]int
	at []time.Time
}

func steps(r *rig) (c change) {
	for _, m := range regexp.MustCompile(`time=(\S+) level=INFO msg="the number of workers follows the load".* from=(\d+) to=(\d+)`).FindAllStringSubmatch(r.log.String(), -1) {
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[3])
		at, _ := time.Parse(time.RFC3339, m[1])
		c.by, c.at = append(c.by, [2]int{from, to}), append(c.at, at)
	}
	return c
}
