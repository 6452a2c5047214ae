package docs

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
)

// output is a shell's output.
type output struct {
	mu      sync.Mutex
	b       bytes.Buffer
	changed chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.b.Write(p)
}

func (o *output) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Len()
}

func (o *output) since(from int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.b.Bytes()[from:])
}

// until waits for a line that begins with mark, and returns the output before it and the rest
// of that line.
func (o *output) until(from int, mark string, within time.Duration) (text, rest string, err error) {
	over := time.After(within)
	for {
		text, after, ok := strings.Cut(o.since(from), "\n"+mark)
		if line, err := bufio.NewReader(strings.NewReader(after)).ReadString('>'); ok && err == nil {
			return text, strings.TrimSuffix(line, ">"), nil
		}
		select {
		case <-o.changed:
		case <-over:
			return "", "", fmt.Errorf("no end after %v; it printed:\n%s", within, indented(strings.Split(tail(o.since(from)), "\n")))
		}
	}
}
