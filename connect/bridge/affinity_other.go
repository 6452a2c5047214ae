//go:build !linux

package bridge

import "errors"

func pin([]int) error { return errors.New("processors can be chosen on Linux only") }
