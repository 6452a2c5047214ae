//go:build !unix

package testenv

import "os"

// Servers are not started here: scripts/services is for Unix.
var kill, freeze, thaw = os.Kill, os.Kill, os.Kill

func reserve(string) (release func(), ok bool) { return func() {}, true }
