package analyticsingest

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/tidemill/tidemill/serve/request"
)

// unwrap undoes what PostHog's old clients wrap JSON in, in any of their orders: a form
// whose field "data" it is, gzip, base64 and lz-string. Hints (the compression parameter)
// are often wrong, so that the bytes decide; only lz-string must be named.
func (x *exchange) unwrap(compression string, limit int) *request.Problem {
	if form := x.R.Header.Get("Content-Type"); strings.HasPrefix(strings.ToLower(form), "application/x-www-form-urlencoded") ||
		bytes.HasPrefix(x.Body.Bytes, []byte("data=")) {
		if c := x.unform(); c != "" {
			compression = c
		}
	}
	lz := compression == "lz64" || compression == "lz-string"
	inflated := false
	for range 5 { // form, base64, gzip, base64 again: nobody wraps more
		b := bytes.TrimLeft(x.Body.Bytes, " \t\r\n")
		var p *request.Problem
		switch {
		case request.IsGzip(x.Body.Bytes) && inflated:
			return request.Unsupported("the body is compressed twice; once is taken")
		case request.IsGzip(x.Body.Bytes):
			inflated = true
			p = x.Body.Inflate("gzip", limit)
		case len(b) == 0:
			return request.BadRequest("the body is empty")
		case b[0] == '{' || b[0] == '[':
			return nil
		case lz:
			lz = false
			if p = x.unbase64(true); p == nil {
				p = x.unlz(limit)
			}
		default:
			p = x.unbase64(false)
		}
		if p != nil {
			return p
		}
	}
	return request.BadRequest("the body is wrapped too often")
}

// unform makes the field "data" of a form the body, where there is one, and returns its
// field "compression".
func (x *exchange) unform() (compression string) {
	var data []byte
	found := false
	for field := range bytes.SplitSeq(x.Body.Bytes, []byte("&")) {
		name, value, _ := bytes.Cut(field, []byte("="))
		switch string(name) {
		case "data":
			data, found = value, true
		case "compression":
			compression, _ = url.QueryUnescape(string(value[:min(len(value), 64)]))
		}
	}
	if found {
		x.Body.Bytes = unescape(data)
	}
	return compression
}

// unescape undoes the escapes of a form, in place. What is no escape stays.
func unescape(b []byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		ch := b[i]
		switch {
		case ch == '+':
			ch = ' '
		case ch == '%' && i+2 < len(b) && unhex(b[i+1]) < 16 && unhex(b[i+2]) < 16:
			ch = unhex(b[i+1])<<4 | unhex(b[i+2])
			i += 2
		}
		out = append(out, ch)
	}
	return out
}

func unhex(ch byte) byte {
	switch {
	case '0' <= ch && ch <= '9':
		return ch - '0'
	case 'a' <= ch|0x20 && ch|0x20 <= 'f':
		return ch | 0x20 - 'a' + 10
	}
	return 16
}

// unbase64 decodes the body, of either alphabet, with or without padding and with spaces
// where forms have lost a plus. With fill, its last digits need not make whole bytes:
// lz-string counts bits.
func (x *exchange) unbase64(fill bool) *request.Problem {
	in := bytes.TrimRight(x.Body.Bytes, "=\r\n\t ")
	in = bytes.TrimLeft(in, "\r\n\t")
	for i, ch := range in {
		switch ch {
		case '-', ' ':
			in[i] = '+'
		case '_':
			in[i] = '/'
		}
	}
	for fill && len(in)%4 != 0 {
		in = append(in, 'A')
	}
	out := x.Body.Get(base64.RawStdEncoding.DecodedLen(len(in)))
	if out == nil {
		return request.NoRoom()
	}
	n, err := base64.RawStdEncoding.Decode(out[:cap(out)], in)
	if err != nil || n == 0 {
		x.Body.Put(out)
		return request.BadRequest("the body is neither JSON nor base64 of it")
	}
	x.Body.Use(out[:n])
	return nil
}

// unlz decompresses lz-string.
func (x *exchange) unlz(limit int) *request.Problem {
	release, p := x.h.Bodies.Enter(x.R.Context())
	if p != nil {
		return p
	}
	defer release()
	limit = x.h.Bodies.Most(len(x.Body.Bytes), limit)
	out, err := unLZ(nil, x.Body.Bytes, limit)
	switch {
	case err == errLZLimit:
		return request.TooLarge("the body has more than %d bytes when decompressed", limit)
	case err != nil:
		return request.BadRequest("the body is no lz-string data")
	}
	x.Body.Use(nil)
	if cap(out) > request.Small && !x.Body.Reserve(int64(cap(out))) {
		return request.NoRoom()
	}
	x.Body.Bytes = out
	return nil
}
