package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
)

// heard is a subscriber's report at its end.
type heard struct {
	Messages int `json:"messages"` // that came
	Entries  int `json:"entries"`  // of those messages, each counted once
	Acks     int `json:"acks"`     // messages of answers
}

// acker is a subscriber, in a process of its own: it answers every message of the bridge on the
// ack topic, many in one answer or each by itself, until it is told to stop. Then it writes its
// report to a file.
func acker(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("acker", flag.ContinueOnError)
	addr := flags.String("broker", "", "address of the broker")
	topic := flags.String("topic", "", "topic of the messages")
	acks := flags.String("acks", "", "topic of the acknowledgements")
	each := flags.Bool("each", false, "answer each message by itself")
	result := flags.String("result", "", "file for what was heard")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pub, err := newPublisher(*addr, "acker-out", *acks, 1000, false)
	if err != nil {
		return err
	}
	defer pub.close()
	sub, err := newSubscriber(*addr, "acker-in", 1, *topic)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, sub.close)()
	fmt.Println("ready")
	h := heard{}
	if err := h.answer(sub, pub, *each); ctx.Err() == nil {
		return err
	}
	h.Acks = pub.sent
	b, err := json.Marshal(h)
	return errors.Join(err, os.WriteFile(*result, b, 0o600))
}

// most is the largest number of ids in one answer.
const most = 500

// answer runs until the connection ends.
func (h *heard) answer(sub *subscriber, pub *publisher, each bool) error {
	seen := map[string]bool{}
	defer func() { h.Entries = len(seen) }()
	var ids, text []byte
	for n := 0; ; {
		_, message, err := sub.next()
		if err != nil {
			return err
		}
		id, err := entryID(message)
		if err != nil {
			return err
		}
		h.Messages++
		seen[string(id)] = true
		if each {
			text = fmt.Appendf(text[:0], `{"id":"%s","ack":true}`, id)
			if err := pub.publish(text); err != nil {
				return err
			}
		} else {
			ids = append(append(append(ids, '"'), id...), `",`...)
			if n++; n == most || !sub.more() {
				text = fmt.Appendf(text[:0], `{"ids":[%s],"ack":true}`, bytes.TrimSuffix(ids, []byte(",")))
				if err := pub.publish(text); err != nil {
					return err
				}
				n, ids = 0, ids[:0]
			}
		}
		if !sub.more() {
			if err := pub.w.Flush(); err != nil {
				return err
			}
		}
	}
}
