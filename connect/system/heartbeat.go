package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidemill/tidemill/flow"
)

// Heartbeat renews a file with the clock in milliseconds, unless a pipeline is stuck:
// probes take a file older than 60s for a dead process.
func (h *Host) Heartbeat(path string) flow.Loop {
	return flow.Loop{Name: "heartbeat", Every: 15 * time.Second, AtStart: true, Do: func(context.Context) error {
		if err := h.Live(); err != nil {
			return err
		}
		// In one step: a probe that reads meanwhile finds the content before or this one.
		// Its folder may be /tmp: the other name is random, so that nobody has put a link there.
		next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
		if err != nil {
			return fmt.Errorf("write the heartbeat: %w", err)
		}
		_, err = next.Write(strconv.AppendInt(nil, h.Now().UnixMilli(), 10))
		if err = errors.Join(err, next.Close()); err == nil {
			err = os.Rename(next.Name(), path)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("write the heartbeat: %w", err), os.Remove(next.Name()))
		}
		return nil
	}}
}
