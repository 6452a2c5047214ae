package analyticstest_test

import (
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/definition/tabledefinition"
	"github.com/tidemill/tidemill/state/lock/tablelock"
	"github.com/tidemill/tidemill/state/person/tableperson"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/analytics"
	"github.com/tidemill/tidemill/systems/analytics/analyticstest"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/memorywarehouse"
)

func TestMemory(t *testing.T) { analyticstest.Run(t, memory) }

func memory(t *testing.T) analyticstest.Harness {
	queues := memoryqueue.New(memoryqueue.Options{})
	letters, err := tabledeadletter.Memory(deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return open(t, analyticstest.Harness{
		Intake: queues, Source: func() tidemill.Source { return queues.Open(analytics.Name, queue.Options{}) },
		Persons: tableperson.Memory(tableperson.Options{}), Warehouse: memorywarehouse.New(), Definitions: tabledefinition.Memory(),
		Letters: letters, Locks: tablelock.Memory(tablelock.Options{}), Projects: tableproject.Memory(),
	})
}
