package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/deadletter"
)

// loops are the system's side jobs.
func (s *System) loops() []flow.Loop {
	ls := []flow.Loop{
		{Name: "definitions", Every: time.Second, Do: s.catalog.Flush},
		{Name: "overrides", Every: time.Second, Do: s.relay},
		{Name: "failed merges", Every: 5 * time.Second, Do: s.mergeKeptLater},
		{Name: "warnings", Every: time.Second, Do: s.Warnings.Flush},
		{Name: "replay circuit", Every: time.Second, Do: s.shareCircuit},
	}
	if s.options.Replay > 0 {
		ls = append(ls, flow.Loop{Name: "replay", Every: s.options.Replay, Do: s.replayFailed})
	}
	return ls
}

// relay copies the overrides that merges left in the outbox to the warehouse. Repeating it is
// harmless: the higher version wins.
func (s *System) relay(ctx context.Context) error {
	for {
		os, err := s.parts.Persons.Overrides(ctx, 1000)
		if err != nil || len(os) == 0 {
			return err
		}
		if err := s.parts.Warehouse.Override(ctx, os); err != nil {
			return fmt.Errorf("copy %d overrides to the warehouse: %w", len(os), err)
		}
		if err := s.parts.Persons.Relayed(ctx, os[len(os)-1].Seq); err != nil {
			return err
		}
	}
}

// maxReplays is how often a dead letter is replayed automatically. Otherwise the same oldest
// ones would be tried for ever, and those behind them never.
const maxReplays = 10

// replayLock is held by the instance that asks for replays.
const replayLock = "dlq:replay:lock"

// replayFailed replays the oldest dead letters of failed batches, on one instance at a time,
// unless the destination is known to be down. Refused events and those that made a stage panic
// would fail again: only an operator replays them. A lost answer does not prevent a replay,
// since every stage may be repeated.
func (s *System) replayFailed(ctx context.Context) error {
	if s.Pipeline.Stats().Breaker == policy.Open || s.Replayer.Stats().Breaker == policy.Open {
		return nil
	}
	held, ok, err := s.parts.Locks.Acquire(ctx, replayLock, 5*time.Minute)
	if err != nil || !ok {
		return err
	}
	defer func() { _ = s.parts.Locks.Release(context.WithoutCancel(ctx), held) }()
	if open, err := s.parts.Circuit.IsOpen(ctx); err != nil || open {
		return err
	}
	_, err = s.parts.DeadLetters.Replay(ctx, deadletter.Filter{Pipeline: Name, Max: s.options.ReplayBatch, Replays: maxReplays,
		NotKinds: []tidemill.Kind{tidemill.Validation, tidemill.Internal}})
	return err
}
