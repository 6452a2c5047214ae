//go:build race

package cli

// watched says that the race detector watches: each command is ten times slower then.
const watched = true
