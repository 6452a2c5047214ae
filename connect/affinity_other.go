//go:build !linux

package connect

import "errors"

func pin([]int) error { return errors.New("processors can be chosen on Linux only") }
