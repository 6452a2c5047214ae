//go:build !linux

package bridgesystem

import "errors"

func pin([]int) error { return errors.New("processors can be chosen on Linux only") }
