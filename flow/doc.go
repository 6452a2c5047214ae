// Package flow runs the messages of a source through work and settles each of them exactly
// once. Use it whenever messages are to be taken from somewhere, in batches, with order,
// retry, breaker and dead letters, without writing any of that again.
//
//	           ┌────────────── credit: no more is held than InFlight ──────────────┐
//	           ▼                                                                   │
//	Source ─▶ door in ─▶ lane: batch ─▶ work ─▶ decide ─▶ emit, bury ─▶ door out ─▶ Settle
//	          shed       full or aged   steps   table     letters       in order
//	          deal       order          retry   breaker   first
//	          wake
//
// To read on, in this order:
//   - [Pipeline] says what there is to choose, [New] refuses what cannot work, [Engine]
//     runs it;
//   - [Work] is what a lane does with a batch of [Task]s. [Steps] is the usual one: decode,
//     then [Stage] after stage, each with a retry in place; [To] makes the last stage out of
//     a sink;
//   - package policy holds the decisions: which kind of failure means what, when to try
//     again, when to leave a destination alone;
//   - [System] owns several pipelines with their [Loop]s and doors, and stops them in order.
//
// # What holds
//
// Every message handed out gets one settlement, also after panics and at a stop. Messages
// of one number (Pipeline.Lane) are worked on in order. Of a pipeline without such numbers
// one stage may be done in the order of receipt, over all lanes (Stage.InOrder). A letter is durable before its
// message is settled dead; what a message emits is durable before, or in the same stroke
// as, its delivery. The end of a context is nobody's failure: what was not finished comes
// again, unburnt. Only settlements that the source applied are counted.
//
// What comes again goes back to the source if that can delay, and keeps order by itself
// where order is needed; else it waits in its lane, and the lane with it.
//
// # Simulation
//
// Inside a testing/synctest bubble a run is a function of its seed: work is dealt, never
// raced for; every timer goes off at an instant that no other goroutine of the engine
// shares; the clock and the randomness are arguments. Calls to the outside (source, sink,
// letters) must return one at a time for that.
package flow
