// Package flow runs the messages of a source through work and settles each of them exactly
// once. Use it to process messages in batches, with order, retry, breaker and dead letters,
// without writing any of that again.
//
//	          ┌────────────── credit: no more is held than InFlight ─────────────┐
//	          ▼                                                                  │
//	Source ─▶ receiver ─▶ lane: batch ─▶ work ─▶ decide ─▶ emit, bury ─▶ settler ─▶ Settle
//	          shed        full or aged   steps   table     dead letters  in order
//	          deal        order          retry   breaker   first
//	          wake
//
// To read on, in this order:
//   - [Pipeline] holds the choices, [New] refuses what cannot work, [Engine] runs it;
//   - [Work] is what a lane does with a batch of [Task]s. [Steps] is the usual one: decode,
//     then [Stage] after stage, each with a retry in place; [To] makes the last stage out of
//     a sink;
//   - package policy holds the decisions: what each kind of failure means, when to try
//     again, when to leave a destination alone;
//   - [System] owns several pipelines with their [Loop]s and listeners, and stops them in
//     order.
//
// # What holds
//
// Every message handed out gets one settlement, also after panics and at a stop. Messages
// of one number (Pipeline.Lane) are worked on in order. A pipeline without such numbers may
// do one stage in the order of receipt, over all lanes (Stage.InOrder). A dead letter is
// durable before its message is settled dead. What a message emits is durable before its
// delivery, or in the same transaction. The end of a context does not count as a failure:
// an unfinished message comes again, without a counted try. Only settlements that the
// source applied are counted.
//
// A message that is tried again goes back to the source if the source can delay it, and
// keeps order by itself where order is needed; else it waits in its lane, and the lane
// waits with it.
//
// # Simulation
//
// Inside a testing/synctest bubble a run is a function of its seed: work is dealt, never
// raced for; every timer goes off at an instant that no other goroutine of the engine
// shares; the clock and the randomness are arguments. For that, calls to the outside
// (source, sink, dead letters) must return one at a time.
package flow
