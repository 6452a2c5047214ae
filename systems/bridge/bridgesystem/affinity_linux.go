package bridgesystem

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// pin keeps every thread of this process, and so those they make, to some processors.
func pin(cpus []int) error {
	var set unix.CPUSet
	for _, n := range cpus {
		set.Set(n)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) { // that one has ended
			return fmt.Errorf("keep to the processors %v: %w", cpus, err)
		}
	}
	return nil
}
