package connect

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/flow"
)

// heartbeat renews a file with the clock in milliseconds, unless a pipeline is stuck:
// probes take a file older than 60s for a dead process.
func (i *Instance) heartbeat(path string) flow.Loop {
	return flow.Loop{Name: "heartbeat", Every: 15 * time.Second, Do: func(context.Context) error {
		if err := i.live(); err != nil {
			return err
		}
		return os.WriteFile(path, strconv.AppendInt(nil, i.options.Now().UnixMilli(), 10), 0o600)
	}}
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
