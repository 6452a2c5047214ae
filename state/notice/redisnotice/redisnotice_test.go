package redisnotice_test

import (
	"context"
	"testing"

	"github.com/tidemill/tidemill/internal/redisconn/redistest"
	"github.com/tidemill/tidemill/internal/testenv"
	"github.com/tidemill/tidemill/state/notice"
	"github.com/tidemill/tidemill/state/notice/noticetest"
	"github.com/tidemill/tidemill/state/notice/redisnotice"
)

func TestContract(t *testing.T) {
	redistest.Each(t, func(t *testing.T, client redistest.Client) {
		noticetest.Run(t, func(t *testing.T) func() notice.Notices {
			name := testenv.Name("notice")
			t.Cleanup(func() {
				if err := client.Do(context.WithoutCancel(t.Context()), client.B().Del().Key(name+":told").Build()).Error(); err != nil {
					t.Error(err)
				}
			})
			return func() notice.Notices {
				n, err := redisnotice.New(client, name)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		})
	})
}
