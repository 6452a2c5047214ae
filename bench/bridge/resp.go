package bridge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// resp is the minimum of a Redis client for a stream: commands are buffered until flush,
// replies are read in order.
type resp struct {
	conn net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
}

func dialRedis(addr string) (*resp, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &resp{c, bufio.NewReaderSize(c, 512<<10), bufio.NewWriterSize(c, 64<<10)}, nil
}

func (p *resp) close() { _ = p.conn.Close() }

// command begins a command of so many words, which arg adds.
func (p *resp) command(words int) {
	_, _ = p.w.Write(append(strconv.AppendInt(append(p.w.AvailableBuffer(), '*'), int64(words), 10), "\r\n"...))
}

func (p *resp) arg(word []byte) {
	b := strconv.AppendInt(append(p.w.AvailableBuffer(), '$'), int64(len(word)), 10)
	b = append(append(b, "\r\n"...), word...)
	_, _ = p.w.Write(append(b, "\r\n"...)) // an error stays in the writer, and flush returns it
}

// send adds a whole command.
func (p *resp) send(words ...string) {
	p.command(len(words))
	for _, w := range words {
		p.arg([]byte(w))
	}
}

// each adds a command about entries: XACK key group ids, XDEL key ids.
func (p *resp) each(entries []entry, words ...string) {
	p.command(len(words) + len(entries))
	for _, w := range words {
		p.arg([]byte(w))
	}
	for i := range entries {
		p.arg(entries[i].id)
	}
}

func (p *resp) flush() error { return p.w.Flush() }

// reply reads the head of a reply: a number, or the length of what follows; -1 is nothing.
func (p *resp) reply() (int, error) {
	line, err := p.r.ReadSlice('\n')
	switch {
	case err != nil:
		return 0, err
	case len(line) < 3:
		return 0, fmt.Errorf("no reply of Redis: %q", line)
	case line[0] == '-':
		return 0, errors.New(string(line[1 : len(line)-2]))
	case line[0] == '+':
		return 0, nil
	}
	return strconv.Atoi(string(line[1 : len(line)-2]))
}

// text reads a string reply to the end of dst.
func (p *resp) text(dst []byte) ([]byte, error) {
	n, err := p.reply()
	if err != nil {
		return dst, err
	}
	at := len(dst)
	for cap(dst) < at+n+2 {
		dst = append(dst[:cap(dst)], 0)
	}
	dst = dst[:at+n+2]
	_, err = io.ReadFull(p.r, dst[at:])
	return dst[:at+n], err
}

// entry is an entry of a stream with one field.
type entry struct{ id, payload []byte }

// batch is the result of one read of a stream; the next read reuses its memory.
type batch struct {
	entries []entry
	block   []byte
	ends    []int
}

// stream reads the reply of an XREADGROUP of one stream.
func (p *resp) stream(b *batch) error {
	b.entries, b.block, b.ends = b.entries[:0], b.block[:0], b.ends[:0]
	if n, err := p.reply(); err != nil || n < 0 {
		return err
	}
	skip := func() { _, _ = p.reply() } // a broken connection shows at the next text
	skip()
	block, err := p.text(b.block)
	if err != nil {
		return err
	}
	block = block[:0]
	n, err := p.reply()
	for range n {
		skip()
		if block, err = p.text(block); err != nil {
			return err
		}
		b.ends = append(b.ends, len(block))
		skip()
		field, err := p.text(block)
		if err != nil {
			return err
		}
		if block, err = p.text(field[:len(block)]); err != nil { // its name is not used
			return err
		}
		b.ends = append(b.ends, len(block))
	}
	b.block = block
	for i, at := 0, 0; i < len(b.ends); i += 2 {
		b.entries = append(b.entries, entry{block[at:b.ends[i]], block[b.ends[i]:b.ends[i+1]]})
		at = b.ends[i+1]
	}
	return err
}
