package command

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/api"
)

// QueueState says in a word what an operator has done to a queue.
func QueueState(q *api.Queue) string {
	switch {
	case q.Paused && q.Closed:
		return "paused, draining"
	case q.Paused:
		return "paused"
	case q.Closed && Held(q) == 0:
		return "drained"
	case q.Closed:
		return "draining"
	}
	return "open"
}

// QueueAge writes how old the oldest job is.
func QueueAge(q *api.Queue) string {
	if Held(q) == 0 {
		return "-"
	}
	return Roughly(time.Duration(q.Age * float64(time.Second)))
}

// Waits says how many wait, and since when, where that is known.
func Waits(n int64, oldest time.Time) string {
	if oldest.IsZero() {
		return fmt.Sprintf("%d waiting", n)
	}
	return fmt.Sprintf("%d waiting, the oldest for %s", n, Roughly(time.Since(oldest)))
}

// Roughly is a time as people say it.
func Roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.0fd", d.Hours()/24)
}

// Whole is a whole number as text.
func Whole(n int64) string { return strconv.FormatInt(n, 10) }

// Held is how many jobs have not ended.
func Held(q *api.Queue) int64 { return q.Waiting + q.Delayed + q.Leased }

// Stamp is a time that may not have been.
func Stamp(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// At is a time with a blank before it; empty where there was none.
func At(t *time.Time) string {
	if t == nil {
		return ""
	}
	return " " + t.Format(time.RFC3339)
}

// Because is a text, and why it is so where that is known.
func Because(text, why string) string {
	if why == "" {
		return text
	}
	return text + ": " + Printable(why)
}

// Most reads how many lines are wanted; 0: all.
func Most(n *int, json bool) (int, error) {
	switch {
	case n != nil && *n < 0:
		return 0, UsageError{Err: fmt.Errorf("-n wants a number, or 0 for all, not %d", *n)}
	case n != nil:
		return *n, nil
	case json:
		return 0, nil
	}
	return 100, nil
}

// SayFirst says that a listing may have been cut, where nobody has said how many are wanted.
func SayFirst(e Env, err error, t *Table, said *int, most int) error {
	if err == nil && most > 0 && t.rows == most && said == nil {
		_, _ = fmt.Fprintf(e.Err, "These are the first %d; there may be more. -n 0 shows all.\n", most)
	}
	return err
}

// Characters is a JSON value as people read it: é, where its sender wrote an escape.
func Characters(value []byte) string {
	if !bytes.Contains(value, []byte(`\u`)) {
		return string(value)
	}
	b, err := jsontext.AppendFormat(nil, value, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return string(value)
	}
	return string(b)
}

// ShownPayload is a payload as people see it, in base64 where it is no text.
func ShownPayload(text, base string) string {
	if text == "" && base != "" {
		return "(base64) " + base
	}
	return Printable(text)
}

// PayloadOf is a payload that the API shows as text, or in base64 where it is none.
func PayloadOf(text, base string) ([]byte, error) {
	if text == "" && base != "" {
		return base64.StdEncoding.DecodeString(base)
	}
	return []byte(text), nil
}

// PrintPayload writes a payload byte for byte, but to a terminal without steering it.
func PrintPayload(e Env, text, base string) error {
	if Terminal(e.Out) {
		_, err := fmt.Fprintln(e.Out, ShownPayload(text, base))
		return err
	}
	b, err := PayloadOf(text, base)
	if err == nil {
		_, err = AsBytes(e.Out).Write(b)
	}
	return err
}

// PrintFields shows headers.
func PrintFields(out io.Writer, fields []api.Field) error {
	for _, f := range fields {
		if _, err := fmt.Fprintf(out, "  %s = %s\n", Printable(f.Name), ShownPayload(f.Value, f.ValueBase64)); err != nil {
			return err
		}
	}
	return nil
}
