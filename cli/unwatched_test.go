//go:build !race

package cli

const watched = false
