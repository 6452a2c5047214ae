// Package analyticsingest is the HTTP endpoint of analytics: use it where SDKs send their events. It
// speaks as the native SDKs, PostHog's (old paths and new), Segment's and CloudEvents'
// senders expect, and answers each so that it neither loses an event nor sends it twice.
//
//	authenticate → read, inflate → split → judge each event → admit → queue.Intake.Add → answer
//
// A positive answer means that every event it counts is durable in the queue. Events are
// judged singly: one bad event never costs a good one its place. What goes into the queue
// are the bytes of each event as received, with an [event.Meta] as header.
//
// # Ids
//
// An event's id is the one it brings: sending it again is harmless, since the queue knows
// it. An event without an id gets one here:
//
//   - where it has a time (or PostHog's $insert_id) of its own, the id is made of the
//     project and its bytes, and of how many equal ones went before it in its batch.
//     Sent again, it is the same event;
//   - else, where the sender said when it sent the batch, the id is made of the project,
//     the batch's bytes, that time and the event's place in it. The same request sent
//     again is the same events; two equal events of one batch stay two;
//   - else nothing tells a second try from a second event, and a random id (UUIDv7) is
//     given: counting an event twice is better than losing one.
//
// # Limits
//
// Everything a client may take is bounded: bytes as sent and inflated, how much larger
// inflating may make them, events, nesting, the time to send a body, and the memory of
// all requests together. Connections and headers are the server's to bound.
package analyticsingest
