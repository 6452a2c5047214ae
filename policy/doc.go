// Package policy holds decisions and has no effects. Use it to say what follows a failure:
// whether and when something is tried again (Retry), what a kind of failure means (Table),
// when a destination is left alone (Breaker and its Circuit) and how fast it may be used
// (Limiter and its Bucket).
//
// Nothing here waits, starts anything or reads the clock: time and randomness are
// arguments, so that a table tests every decision. The engine (package flow) acts on the
// decisions.
package policy
