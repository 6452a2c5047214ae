package connect

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/flow"
)

// heartbeat renews a file with the clock in milliseconds, unless a pipeline is stuck:
// probes take a file older than 60s for a dead process.
func (i *Instance) heartbeat(path string) flow.Loop {
	return flow.Loop{Name: "heartbeat", Every: 15 * time.Second, AtStart: true, Do: func(context.Context) error {
		if err := i.live(); err != nil {
			return err
		}
		// In one stroke: a probe that reads meanwhile finds the content before or this one.
		next := path + ".next"
		if err := os.WriteFile(next, strconv.AppendInt(nil, i.options.Now().UnixMilli(), 10), 0o600); err != nil {
			return fmt.Errorf("write the heartbeat: %w", err)
		}
		return os.Rename(next, path)
	}}
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
