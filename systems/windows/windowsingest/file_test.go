package windowsingest

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/systems/windows/gdelt"
	"github.com/tidemill/tidemill/systems/windows/gdelt/gdelttest"
	"github.com/tidemill/tidemill/systems/windows/record"
)

// file sends one.
func (d *testEndpoint) upload(name string, content []byte) *httptest.ResponseRecorder {
	d.t.Helper()
	w := d.ask("POST", Path+"/files?name="+url.QueryEscape(name), string(content), nil)
	d.idle()
	if left, err := os.ReadDir(d.o.Spool); err != nil || len(left) != 0 {
		d.t.Errorf("left behind: %v, %v", left, err)
	}
	return w
}

func TestFilesAreStoredAsTheirRows(t *testing.T) {
	pair := gdelttest.Batch{Stamp: batch, Events: 2500, Mentions: 5000}
	each(t, func(t *testing.T, d *testEndpoint) {
		export, mentions := pair.Names()
		want(t, d.upload(export, pair.Export()), 202, `{"batch":"20250323151500","accepted":2500,"duplicate":0,"rejected":0,"kind":"event","idless":0}`)
		want(t, d.upload(mentions+".zip", gdelttest.Zip(mentions, pair.MentionsFile())), 202, `{"batch":"20250323151500","accepted":5000,"duplicate":0,"rejected":0,"kind":"mention","idless":0}`)
		want(t, d.upload(export+".zip", gdelttest.Zip(export, pair.Export())), 202, `{"batch":"20250323151500","accepted":0,"duplicate":2500,"rejected":0,"kind":"event","idless":0}`)
		all := d.kept(batch)
		rows := gdelt.NewReader(record.Event, bytes.NewReader(pair.Export()), gdelt.Limits{})
		for rows.Next() == nil {
			if got := all[fmt.Sprintf("event %d ", rows.ID())]; got != string(rows.AppendJSON(nil)) {
				t.Fatalf("row %d is %q", rows.Line(), got)
			}
		}
		if rows.Rows() != 2500 || len(all) != 7500 {
			t.Errorf("%d rows, %d records", rows.Rows(), len(all))
		}
		for _, n := range d.windows.puts() {
			if n > partRows {
				t.Errorf("%d records in a call", n)
			}
		}
		if got := d.Handled(); got != (Handled{Requests: 3, Accepted: 7500, Duplicate: 2500}) {
			t.Errorf("handled %+v", got)
		}
	})
}

func TestRowsThatAreNoRecords(t *testing.T) {
	d := newEndpoint(t)
	long := "2\t" + strings.Repeat("\t", 59) + "x" + strings.Repeat("\x01", 200_000) + "x" // six bytes each in JSON
	want(t, d.upload(batch+".export.CSV", []byte("1\t20250323\n\nno id\n"+long+"\n3\t\n")), 202,
		`{"batch":"20250323151500","accepted":2,"duplicate":0,"rejected":1,"refused":[{"index":1,"line":4,"message":"the event is refused: it has 1201346 bytes, more than 1048576"}],"kind":"event","idless":1}`)
	want(t, d.upload(batch+".export.CSV", []byte(long)), 422, "validation_failed")
	want(t, d.upload(batch+".export.CSV", []byte("1\t20250323\n12")), 422, "damaged_file") // of a row 1234, perhaps
}

func TestFilesThatAreRefused(t *testing.T) {
	good := gdelttest.Batch{Stamp: batch, Events: 3000}.Export()
	packed := gdelttest.Zip(batch+".export.CSV", good)
	torn := slices.Clone(packed)
	torn[len(torn)/2] ^= 0xff
	for _, c := range []struct {
		name, as string
		content  []byte
		h        header
		code     int
		word     string
		says     string
	}{
		{"no name", "", good, nil, 400, "bad_name", "want the name of a GDELT file"},
		{"another name", "events.csv", good, nil, 400, "bad_name", "20250323151500.export.CSV"},
		{"a path", "../a.export.CSV", good, nil, 400, "bad_name", ""},
		{"another batch id", "a.export.CSV", good, header{"X-Batch-ID": "b"}, 400, "bad_batch_id", "up to the first dot"},
		{"a form", "a.export.CSV", good, header{"Content-Type": "multipart/form-data; boundary=x"}, 415, "unsupported_media_type", "--data-binary"},
		{"packed by the way", "a.export.CSV", []byte(zipped(string(good))), header{"Content-Encoding": "gzip"}, 415, "unsupported_media_type", ".zip"},
		{"nothing", "a.export.CSV", nil, nil, 400, "empty", ""},
		{"no rows", "a.export.CSV", []byte("\n\n"), nil, 422, "empty", ""},
		{"no tabs", "a.export.CSV", []byte("1,2\n3,4\n"), nil, 422, "damaged_file", "separated by tabs"},
		{"no zip", "a.export.CSV.zip", good, nil, 422, "damaged_file", "cannot be unpacked"},
		{"a torn zip", "a.export.CSV.zip", torn, nil, 422, "damaged_file", "cannot be unpacked"},
		{"half a zip", "a.export.CSV.zip", packed[:len(packed)/2], nil, 422, "damaged_file", "cannot be unpacked"},
		{"a bomb", "a.export.CSV.zip", gdelttest.Zip("a", bytes.Repeat([]byte("1\t                                \n"), 1<<17)), nil, 422, "damaged_file", "bytes when unpacked"},
		{"a long line behind good rows", "a.export.CSV", append(slices.Clone(good), append([]byte("1\t"), bytes.Repeat([]byte("x"), 1<<20)...)...), nil, 422, "damaged_file", "line 3001"},
		{"a large file", "a.export.CSV", bytes.Repeat(good, 2), nil, 413, "too_large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newEndpoint(t, func(o *Options) { o.Limits.File, o.Limits.Unpacked = len(good)+2<<20, 3<<20 })
			if c.name == "a large file" {
				d.o.Limits.File = len(good)
			}
			w := d.ask("POST", Path+"/files?name="+url.QueryEscape(c.as), string(c.content), c.h)
			want(t, w, c.code, c.word)
			says(t, w, c.says)
			d.idle()
			if left, _ := os.ReadDir(d.o.Spool); len(left) != 0 || len(d.windows.puts()) != 0 {
				t.Errorf("left behind: %v; stored: %v", left, d.windows.puts())
			}
		})
	}
}

func TestWhenAFileCannotBeTaken(t *testing.T) {
	pair := gdelttest.Batch{Stamp: batch, Events: 3000}
	d := newEndpoint(t, func(o *Options) { o.Limits.Files, o.Limits.PerMinute = 1, 3000 })
	d.windows.set(tidemill.Fail(tidemill.Transient, "connection refused"), nil)
	want(t, d.upload(batch+".export.CSV", pair.Export()), 503, "unavailable")
	d.windows.set(nil, nil)
	d.files <- struct{}{} // another one is being taken
	want(t, d.ask("POST", Path+"/files?name=a.export.CSV", "1\t", nil), 503, "unavailable")
	<-d.files
	if err := os.Remove(d.o.Spool); err != nil { // as a disk that is away
		t.Fatal(err)
	}
	w := d.ask("POST", Path+"/files?name=a.export.CSV", "1\t", nil)
	want(t, w, 503, "unavailable")
	if strings.Contains(w.Body.String(), d.o.Spool) {
		t.Errorf("inner words are told: %s", w.Body)
	}
	if err := os.Mkdir(d.o.Spool, 0o700); err != nil {
		t.Fatal(err)
	}
	if w := d.upload(batch+".export.CSV", pair.Export()); w.Code != 202 { // its minute was given back
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestFilesThatADeadProcessLeftAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b", "spool")
	open := func() { newEndpoint(t, func(o *Options) { o.Spool = dir }) }
	open()
	for _, name := range []string{spooled + "1", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "other" {
		t.Errorf("left: %v, %v", left, err)
	}
}
