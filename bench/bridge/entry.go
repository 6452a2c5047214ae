package bridge

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// payload is the field `payload` of entry i: a JSON object of 300 bytes, as a device sends it.
func payload(i int) []byte {
	b := fmt.Appendf(make([]byte, 0, 300), `{"device_id":"dev-%06d","seq":%d,"ts":%d,"type":"telemetry","site":"plant-%02d","temperature":%d.%02d,"humidity":%d,"battery":%d,"firmware":"2.14.%d","status":"ok","tags":["line-%d","zone-%d"],"note":"`,
		i%10000, i, 1700000000000+i*7, i%17, 15+i%20, i%100, 30+i%60, i%101, i%9, i%8, i%5)
	for len(b) < 298 {
		b = append(b, byte('a'+(len(b)*7+i)%26))
	}
	return append(b, '"', '}')
}

// sequence reads the number of an entry back from a message about it.
func sequence(message []byte) (int, error) {
	_, rest, ok := bytes.Cut(message, []byte(`"seq":`))
	digits, _, closed := bytes.Cut(rest, []byte(","))
	n, err := strconv.Atoi(string(digits))
	if !ok || !closed || err != nil {
		return 0, fmt.Errorf("a message without the number of its entry: %.400s", message)
	}
	return n, nil
}

// entryID reads the entry's id from a message as the bridge frames it: its last member.
func entryID(message []byte) ([]byte, error) {
	const mark = `"redis":{"payload":{"id":"`
	at := bytes.LastIndex(message, []byte(mark))
	if at < 0 {
		return nil, fmt.Errorf("a message without the id of its entry: %.400s", message)
	}
	id, _, _ := bytes.Cut(message[at+len(mark):], []byte(`"`))
	return id, nil
}

// fill writes entries to a stream, 1,000 in a round trip.
func fill(ctx context.Context, client rueidis.Client, stream string, entries int) error {
	for i := 0; i < entries; {
		cmds := make(rueidis.Commands, 0, 1000)
		for ; len(cmds) < 1000 && i < entries; i++ {
			cmds = append(cmds, client.B().Xadd().Key(stream).Id("*").FieldValue().FieldValue("payload", string(payload(i))).Build())
		}
		for _, r := range client.DoMulti(ctx, cmds...) {
			if err := r.Error(); err != nil {
				return fmt.Errorf("fill %s: %w", stream, err)
			}
		}
	}
	return nil
}
