//go:build unix

package bridgesystem

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage measures how much of the machine this process uses.
type usage struct {
	now  func() time.Time
	last time.Time
	cpu  time.Duration
}

func newUsage(now func() time.Time) *usage { return &usage{now: now} }

// read is how much of the processors was used since it was last read, and how much of the
// memory is used, in percent. It is called by one goroutine.
func (u *usage) read() (cpu, memory float64, err error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, 0, err
	}
	now, spent := u.now(), time.Duration(r.Utime.Nano()+r.Stime.Nano())
	if elapsed := now.Sub(u.last); !u.last.IsZero() && elapsed > 0 {
		cpu = 100 * float64(spent-u.cpu) / float64(elapsed) / float64(runtime.GOMAXPROCS(0))
	}
	u.last, u.cpu = now, spent
	memory, err = memoryUsed()
	return cpu, memory, err
}

// memoryUsed is the resident part of this process of what it may have: of its control
// group's limit, or of the machine's memory.
func memoryUsed() (float64, error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, errors.New("/proc/self/statm is not as it should be")
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		return 0, err
	}
	most, err := memoryLimit()
	if err != nil {
		return 0, err
	}
	return 100 * pages * float64(os.Getpagesize()) / most, nil
}

func memoryLimit() (float64, error) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	total := 0.0
	for line := range strings.Lines(string(info)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return 0, err
			}
			total = kb * 1024
		}
	}
	if total <= 0 {
		return 0, errors.New("/proc/meminfo has no MemTotal")
	}
	if limit, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseFloat(strings.TrimSpace(string(limit)), 64); err == nil && n > 0 && n < total {
			total = n
		}
	}
	return total, nil
}
