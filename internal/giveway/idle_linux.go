package giveway

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// tick is what /proc/stat counts in (proc(5): USER_HZ, which is 100 on all architectures that Go has).
const tick = 10 * time.Millisecond

// Idle is for how long the machine's cores have been idle since it was started, all together; false: it
// cannot be known.
func Idle() (time.Duration, bool) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	var b [256]byte // its first line is of all cores: cpu user nice system idle iowait ...
	n, err := f.Read(b[:])
	if err != nil {
		return 0, false
	}
	return idleOf(b[:n])
}

func idleOf(stat []byte) (time.Duration, bool) {
	fields := bytes.Fields(stat[:max(0, bytes.IndexByte(stat, '\n'))])
	if len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, false
	}
	var ticks int64
	for _, f := range fields[4:6] { // a core that waits for a disk is free, too
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, false
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, ticks > 0 // gVisor writes nothing but zeros
}
