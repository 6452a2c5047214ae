// Package aside marks reading for somebody who only looks: a page of the console, figures that are
// kept for those who look. A store lets its own work go first.
package aside

import "context"

type key struct{}

// Reading is a context in which reading is for somebody who looks.
func Reading(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is says whether it is so.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }
