// Package giveway lets work wait for requests that somebody waits for.
//
// Requests and the work on what they have brought in share the cores, a Redis, or the one writer of a
// file. Work has messages in plenty and takes whatever is free, so that each request would wait behind
// much of it. Two things give requests the better part where both want the same, and leave work a
// share of it:
//
//   - A Way is asked before each batch of work: while requests take long, a lane rests after each
//     batch, so that it works two fifths of the time.
//   - A Gate is before what does one thing after the other, or few at a time. Calls for requests, those
//     with a context of First, pass at once. After a call for work comes a rest, in which none begins.
package giveway

import (
	"context"
	"time"
)

// share is the part of its time that work has besides its rests, while requests wait.
const share = 0.4

// Lines is of how many lines Line is one.
const Lines = 2

// Line is the line in which a call waits where some are made together: those of requests are made with
// no others, which would have them wait for a rest.
func Line(ctx context.Context) int {
	if IsFirst(ctx) {
		return 1
	}
	return 0
}

// rest is how long work that took so long rests, so that it has its share of both together.
func rest(worked time.Duration) time.Duration {
	return time.Duration(float64(worked) * (1 - share) / share)
}

type key struct{}

// First is the context of what a request waits for.
func First(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// IsFirst says whether it is one.
func IsFirst(ctx context.Context) bool { return ctx.Value(key{}) != nil }

type waited struct{}

// Waited is the context of what gives way no more, and has nothing else wait for it: of somebody's look
// at what there is, which has waited once.
func Waited(ctx context.Context) context.Context { return context.WithValue(ctx, waited{}, true) }

func hasWaited(ctx context.Context) bool { return ctx.Value(waited{}) != nil }
