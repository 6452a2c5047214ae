package kafkasource

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// Books implements tidemill.Bookkeeper for the whole group: what is committed for every
// partition, and how far its log goes. Records that are gone are Lost, counted or not. Ends
// of transactions beyond what was read are not known yet: until then they are both accepted
// and pending.
func (s *Source) Books(ctx context.Context) (tidemill.Books, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Answer)
	defer cancel()
	// First read what is settled, then the log's end: it only grows.
	commits, err := s.admin.FetchOffsetsForTopics(ctx, s.group, s.topic)
	if err == nil {
		err = commits.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) { // nobody has joined it so far
		commits, err = nil, nil
	}
	if err != nil {
		return tidemill.Books{}, kafkaconn.Error(err, "read what group %s has committed of topic %s", s.group, s.topic)
	}
	extents, err := s.extents(ctx)
	if err != nil {
		return tidemill.Books{}, err
	}
	var all tidemill.Books
	for id, x := range extents {
		c := committed{offset: -1}
		if o, ok := commits.Lookup(s.topic, id); ok {
			c = committed{o.At, o.Metadata}
		}
		b, err := book(c, x)
		if err != nil {
			return tidemill.Books{}, fmt.Errorf("books of partition %d of topic %s in group %s: %w", id, s.topic, s.group, err)
		}
		all.Accepted += b.Accepted
		all.Settled.Add(b.Settled)
		all.Pending += b.Pending
		all.Lost += b.Lost
	}
	return all, nil
}

// book is one partition's.
func book(c committed, x extent) (tidemill.Books, error) {
	if c.offset < 0 {
		n := uint64(x.end - x.start)
		return tidemill.Books{Accepted: n, Pending: n}, nil
	}
	r, ours, err := parseRow(c.offset, c.text)
	if err != nil {
		return tidemill.Books{}, err
	}
	if !ours {
		r.Topic = x.topic
	}
	if l, gone := r.missing(x); gone {
		r.goOn(l, x)
	}
	var ahead int64
	for _, a := range r.ahead {
		ahead += a.to - a.from
	}
	end := max(x.end, r.mark)
	return tidemill.Books{
		Accepted: uint64(end - r.Base - int64(r.Void)),
		Settled:  r.Settled,
		Pending:  uint64(end - r.mark - ahead),
		Lost:     r.Lost,
	}, nil
}
