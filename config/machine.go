package config

import (
	"cmp"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is what the defaults that are rules are made of: "CPUs × 4", and <host> and
// <pid> in a text. Such a setting may be given by a rule, too, so that one file is right
// for machines of every size.
type Machine struct {
	CPUs int    // 0: as many as this process may use
	Host string // empty: this machine's name
	PID  int    // 0: this process's number
}

func isRule(text string) bool {
	return strings.HasPrefix(text, "CPUs") || strings.Contains(text, "<host>") || strings.Contains(text, "<pid>")
}

func (m Machine) fill() Machine {
	host, _ := os.Hostname()
	return Machine{
		CPUs: cmp.Or(m.CPUs, runtime.GOMAXPROCS(0)), // knows the limits of a container, too
		Host: cmp.Or(m.Host, host, "localhost"),
		PID:  cmp.Or(m.PID, os.Getpid()),
	}
}

// apply makes a value of a rule; what is none stays as it is.
func (m Machine) apply(text string) string {
	text = strings.NewReplacer("<host>", m.Host, "<pid>", strconv.Itoa(m.PID)).Replace(text)
	factor, ok := strings.CutPrefix(text, "CPUs")
	if !ok {
		return text
	}
	if factor = strings.TrimSpace(factor); factor == "" {
		return strconv.Itoa(m.CPUs)
	}
	for _, times := range []string{"×", "*", "x"} {
		digits, ok := strings.CutPrefix(factor, times)
		if n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 32); ok && err == nil {
			return strconv.FormatInt(int64(m.CPUs)*n, 10)
		}
	}
	return text
}
