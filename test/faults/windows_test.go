//go:build servers

package faults

import (
	"flag"
	"testing"
	"time"
)

var (
	windowsFlag      = flag.Int("windows", 12, "how many pairs of files TestWindows… tests bring")
	windowsKillsFlag = flag.Int("windowskills", 10, "how often instances are killed, in TestWindows… tests that do so")
)

// windowsSize is how many events a pair of files has; it has three times as many mentions.
const windowsSize = 60

// TestWindowsEveryRowOfFilesArrives kills the only instance every second, on SQLite, while it
// reads a folder and receives records by HTTP.
func TestWindowsEveryRowOfFilesArrives(t *testing.T) {
	t.Parallel()
	windowsRounds(t, nil, func(w *windowsWorld) {
		in := w.run(1)[0]
		ended := w.write(*windowsFlag, windowsSize, time.Duration(*windowsKillsFlag)*time.Second/time.Duration(*windowsFlag))
		posted := w.batches(10_000, 1, 20)
		for _, i := range posted {
			i.newest = 1
		}
		taken := make(chan struct{})
		w.Cleanup(func() { <-taken })
		go func() {
			defer close(taken)
			for _, i := range posted {
				w.post(i)
				w.pass(20 * time.Millisecond)
			}
		}()
		for n := 0; n < *windowsKillsFlag || !over(ended) || !over(taken); n++ {
			w.pass(w.between(500*time.Millisecond, 1500*time.Millisecond))
			w.kills(in)
		}
		w.finish(w.crashes())
		w.struck("kills", *windowsKillsFlag, w.hits["kill"])
		w.struck("killed while windows were out", 1, w.hits["killed while windows were out"])
	})
}

// TestWindowsEveryRecordArrives kills the only instance every second, on servers.
func TestWindowsEveryRecordArrives(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) { w.everyRecord(1) })
}

// TestWindowsEveryRecordOfSeveralArrives kills one of two or three instances every second.
func TestWindowsEveryRecordOfSeveralArrives(t *testing.T) {
	t.Parallel()
	windowsRounds(t, &windowsServers{}, func(w *windowsWorld) { w.everyRecord(2 + w.rnd.IntN(2)) })
}

// everyRecord kills instances while records come, some of them again, some in newer versions,
// some that cannot be stored.
func (w *windowsWorld) everyRecord(instances int) {
	for range instances {
		all := w.run(1)
		w.last = all[len(all)-1]
		w.until(20*time.Second, "it is a member of its groups", func() bool {
			w.attribute()
			return len(w.members[w.last]) == 4 // for two topics in each of two groups
		})
	}
	items := w.batches(0, *windowsFlag, windowsSize)
	for k := 40; k < len(items); k += 400 {
		items[k].ends, items[k].headless = "intake", k%800 == 40
		items[k].broken = !items[k].headless
	}
	ended := w.produce(items, windowsProducing{Rate: len(items) / *windowsKillsFlag, Again: 2, Changed: 5})
	for n := 0; n < *windowsKillsFlag || !over(ended); n++ {
		w.pass(w.between(500*time.Millisecond, 1500*time.Millisecond))
		w.kills(w.instances[n%instances])
	}
	w.finish(w.crashes())
	w.struck("kills", *windowsKillsFlag, w.hits["kill"])
	w.struck("killed while windows were out", 1, w.hits["killed while windows were out"])
}
