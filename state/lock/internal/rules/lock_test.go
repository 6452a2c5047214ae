package rules_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tidemill/tidemill/state/lock/internal/rules"
)

func TestAnOwnerIsSixteenRandomBytes(t *testing.T) {
	if got, err := rules.NewOwner(strings.NewReader("0123456789abcdef and more")); err != nil || got != "30313233343536373839616263646566" {
		t.Errorf("NewOwner = %q, %v; want the first 16 bytes in hex", got, err)
	}
	broken := errors.New("no randomness")
	if got, err := rules.NewOwner(iotest.ErrReader(broken)); !errors.Is(err, broken) || got != "" {
		t.Errorf("NewOwner = %q, %v; want %v", got, err, broken)
	}
}

func TestALockIsForSomeTime(t *testing.T) {
	if err := rules.Check("a", 1); err != nil {
		t.Errorf("a nanosecond is refused: %v", err)
	}
	if rules.Check("a", 0) == nil || rules.Check("", 1) == nil {
		t.Error("a lock for no time or without a name is let pass")
	}
}
