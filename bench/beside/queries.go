package beside

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/tidemill/tidemill/bench/process"
)

// readers read pages, one after the other each, while requests come.
const readers = 4

// read begins to read pages; what it returns ends that, and says how long each took.
func (r *running) read(ctx context.Context) func() ([]time.Duration, error) {
	ctx, end := context.WithCancel(ctx)
	var g sync.WaitGroup
	took, errs := make([][]time.Duration, readers), make([]error, readers)
	asked := []string{"", "&distinct_id=user-1", "&name=action+1", "&since=" + url.QueryEscape(time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))}
	for i := range readers {
		g.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				began := time.Now()
				if _, errs[i] = process.Get(r.program.URL + "/api/v1/events?order=newest&limit=50" + asked[len(took[i])%len(asked)]); errs[i] == nil {
					took[i] = append(took[i], time.Since(began))
				}
			}
		})
	}
	return func() (all []time.Duration, err error) {
		end()
		g.Wait()
		for i := range took {
			if all = append(all, took[i]...); errs[i] != nil {
				err = errs[i]
			}
		}
		return all, err
	}
}
