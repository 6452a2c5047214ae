package windowsingest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// A file's rows are stored in parts: of so many bytes, about, or rows.
const (
	partBytes = 1 << 20
	partRows  = 2000
)

// file takes a GDELT file. It is read whole before any of its rows is stored, so that
// nothing is kept of one that is torn.
func (x *exchange) file() *request.Problem {
	if p := x.authenticate(); p != nil {
		return p
	}
	l, name, p := x.named()
	if p != nil {
		return p
	}
	select {
	case x.h.files <- struct{}{}:
		defer func() { <-x.h.files }()
	default:
		return request.Busy("files", fmt.Sprintf("%d files are being taken, which is the limit: please retry", cap(x.h.files)))
	}
	if p := x.Reserve(fileMemory); p != nil {
		return p
	}
	path, p, err := x.spool()
	if p != nil || err != nil {
		return x.unread(p, err)
	}
	defer func() {
		if err := os.Remove(path); err != nil {
			// Logged when a file that was sent by HTTP could not be removed after it was read.
			// To do: remove it from the folder of uploads; see whether the disk is well.
			x.h.o.Log.WarnContext(x.R.Context(), "a file that was taken stays on the disk", "error", err)
		}
	}()
	limits := gdelt.Limits{File: int64(x.h.o.Limits.Unpacked), Zip: int64(x.h.o.Limits.File)}
	found, err := gdelt.Check(path, name, limits)
	if err != nil {
		return x.unread(nil, err)
	}
	if found.Rows == 0 {
		return request.Refuse(http.StatusUnprocessableEntity, "empty", "the file has no rows")
	}
	back, p := x.admit(int(found.Rows))
	if p != nil {
		return p
	}
	if p := x.store(path, name, limits, l); p != nil {
		back()
		return p
	}
	if l.accepted+l.duplicate == 0 {
		return noneGood(l, nil)
	}
	b := endpoint.Quote(append(l.appendTo([]byte{'{'}), `,"kind":`...), l.kind.String())
	x.JSON(http.StatusAccepted, append(endpoint.Number(b, "idless", int(found.Idless)), '}'))
	return nil
}

// named is what the name of the file says, and what the request says beside.
func (x *exchange) named() (*load, gdelt.Name, *request.Problem) {
	l, p := x.load(0)
	if p != nil {
		return nil, gdelt.Name{}, p
	}
	given := x.R.URL.Query().Get("name")
	name, ok := gdelt.ParseName(given)
	switch {
	case !ok:
		p = request.Refuse(http.StatusBadRequest, "bad_name", "?name=%.60q: want the name of a GDELT file, such as 20250323151500.export.CSV or 20250323151500.mentions.CSV.zip", given)
	case l.id != "" && l.id != name.Batch:
		p = request.Refuse(http.StatusBadRequest, "bad_batch_id", "the batch id of a file is the part of its name up to the first dot, here %q, and the request gives another one", name.Batch)
	case strings.HasPrefix(x.R.Header.Get("Content-Type"), "multipart/"):
		p = request.Unsupported("the body is a form: send the file itself as the body, such as with curl --data-binary @%s", given)
	case len(x.R.Header["Content-Encoding"]) > 0 && x.R.Header.Get("Content-Encoding") != "identity":
		p = request.Unsupported("a file is not sent with a Content-Encoding: zip it, and let its name end in .zip")
	}
	l.kind, l.id, l.batch = name.Kind, name.Batch, record.NewBatch(x.project, name.Batch)
	return l, name, p
}

// unread is why a file cannot be read: by what is wrong with it, or by a trouble of ours.
func (x *exchange) unread(p *request.Problem, err error) *request.Problem {
	if p != nil {
		return p
	}
	if bad, ok := errors.AsType[*gdelt.Damage](err); ok {
		return request.Refuse(http.StatusUnprocessableEntity, "damaged_file", "nothing is taken of the file: %s", bad.Why)
	}
	// Logged when a file that was sent by HTTP cannot be written or read here; its sender is answered
	// 503.
	// To do: give the folder of uploads room and rights.
	x.h.o.Log.ErrorContext(x.R.Context(), "a file that was sent cannot be taken", "error", err)
	return request.Busy("unkept", "the file cannot be taken now, please retry")
}

// store stores the rows of a file that was found to be sound.
func (x *exchange) store(path string, name gdelt.Name, limits gdelt.Limits, l *load) *request.Problem {
	f, err := gdelt.Open(path, name, limits)
	if err != nil {
		return x.unread(nil, err)
	}
	defer func() { _ = f.Close() }()
	var buf []byte
	var rows []row
	for {
		err := f.Next()
		if err == nil {
			start := len(buf)
			buf = f.AppendJSON(buf)
			rows = append(rows, row{start, len(buf), int(f.Line())})
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return x.unread(nil, err)
		}
		if err != nil || len(buf) >= partBytes || len(rows) == partRows {
			if p := x.part(buf, rows, l); p != nil {
				return p
			}
			buf, rows = buf[:0], rows[:0]
		}
		if err != nil {
			return nil
		}
	}
}

// row is where one lies in the bytes of a part.
type row struct{ start, end, line int }

// part stores some rows.
func (x *exchange) part(buf []byte, rows []row, l *load) *request.Problem {
	if x.R.Context().Err() != nil {
		return request.Busy("gone", "the client is gone")
	}
	raws := make([]raw, len(rows))
	for i, r := range rows {
		raws[i] = raw{buf[r.start:r.end:r.end], r.line}
	}
	before := l.rejected
	if err := l.judge(raws, true); err != nil {
		return x.unread(nil, err)
	}
	x.Count(rejected, l.rejected-before)
	return x.put(l)
}
