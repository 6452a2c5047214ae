package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/kafkaconn"
)

// TransactionOptions tune transactions.
type TransactionOptions struct {
	Options
	// ID names the writer to the brokers. Two live writers must not have the same name: the
	// older would be shut out. A writer that starts with the name of a dead one ends its
	// open transactions at once; under another name readers wait for Timeout.
	ID string
	// AtOnce is how many may be open at a time; 0: 1. Each has its own client.
	AtOnce int
	// Timeout is the time after which the brokers abort a transaction that is not ended; 0:
	// 5 minutes. Brokers allow at most 15, unless configured otherwise.
	Timeout time.Duration
}

// timeout is the default of TransactionOptions.Timeout, and patience bounds the end of a
// transaction.
const (
	timeout  = 5 * time.Minute
	patience = 30 * time.Second
)

// Transactions write batches that appear wholly or not at all to readers of committed
// records (isolation.level=read_committed).
type Transactions struct {
	cluster *kafkaconn.Cluster
	o       TransactionOptions
	free    chan *writer // those that no transaction uses

	writings writings
	limits   *limits
}

// writer is a client and its name; the client is nil until it is needed, and after it was
// spoilt.
type writer struct {
	id     string
	client *kgo.Client
}

// NewTransactions makes a writer, which connects when it is first used.
func NewTransactions(cluster *kafkaconn.Cluster, o TransactionOptions) (*Transactions, error) {
	var err error
	if o.Options, err = o.withDefaults(); err != nil {
		return nil, err
	}
	switch {
	case o.ID == "":
		return nil, errors.New("kafka transactions: they need a name (ID)")
	case o.AtOnce < 0 || o.Timeout < 0:
		return nil, errors.New("kafka transactions: AtOnce and Timeout must not be negative")
	}
	if o.AtOnce == 0 {
		o.AtOnce = 1
	}
	if o.Timeout == 0 {
		o.Timeout = timeout
	}
	t := &Transactions{cluster: cluster, o: o, free: make(chan *writer, o.AtOnce), limits: &limits{within: o.Within}}
	for n := range o.AtOnce {
		t.free <- &writer{id: fmt.Sprintf("%s-%d", o.ID, n)}
	}
	return t, nil
}

// Close ends the clients. No transaction may be open.
func (t *Transactions) Close() {
	for range t.o.AtOnce {
		if w := <-t.free; w.client != nil {
			w.client.Close()
		}
	}
}

// Ping returns nil when a broker answers, whatever it would say of a record.
func (t *Transactions) Ping(ctx context.Context) error {
	client, err := t.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	return kafkaconn.Error(client.Ping(ctx), "ask the brokers whether they are there")
}

// Begin begins a transaction, and waits while AtOnce are open. Commit or Abort ends it.
func (t *Transactions) Begin(ctx context.Context) (*Transaction, error) {
	var w *writer
	select {
	case w = <-t.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := t.open(w); err != nil {
		t.spoilt(w)
		return nil, err
	}
	return &Transaction{t: t, w: w}, nil
}

// open begins a transaction with a writer's client, or with a new one where the old one is
// unusable.
func (t *Transactions) open(w *writer) error {
	if w.client != nil {
		if w.client.BeginTransaction() == nil {
			return nil
		}
		w.client.Close()
		w.client = nil
	}
	client, err := t.cluster.Client(append(producer(t.o.Options, t.limits), kgo.TransactionalID(w.id), kgo.TransactionTimeout(t.o.Timeout))...)
	if err != nil {
		return err
	}
	w.client = client
	return kafkaconn.Error(client.BeginTransaction(), "begin the transaction %s", w.id)
}

// spoilt gives a writer back whose client is in an unknown state.
func (t *Transactions) spoilt(w *writer) {
	if w.client != nil {
		w.client.Close()
		w.client = nil
	}
	t.free <- w
}

// Transaction is one batch that appears wholly or not at all, written in parts. It is used
// by one goroutine at a time.
type Transaction struct {
	t   *Transactions
	w   *writer
	err error // why it cannot be committed any more
	old bool  // its client knows a limit that is not true any more
}

// Write is Sink.Write, within the transaction: nil means that the brokers have the records,
// not that they can be read. After an error only Abort is possible.
func (x *Transaction) Write(ctx context.Context, batch []*tidemill.Message) error {
	switch {
	case x.w == nil:
		return tidemill.Fail(tidemill.Internal, "write in a transaction: it has ended")
	case x.err == nil:
		x.err = x.write(ctx, batch)
	}
	return x.err
}

func (x *Transaction) write(ctx context.Context, batch []*tidemill.Message) error {
	if err := x.t.limits.learn(ctx, x.w.client, x.t.o.Topic, batch); err != nil {
		return err
	}
	err := x.t.writings.write(ctx, x.w.client, x.t.o.Topic, batch)
	x.old = x.t.limits.tooLarge(ctx, x.w.client, x.t.o.Topic, batch, err) != nil
	return err
}

// Commit makes the written records appear, all at once. After an error of kind Unknown it
// is not known whether they do; after other errors they do not. The end of ctx does not
// stop it: it takes at most half a minute.
func (x *Transaction) Commit(ctx context.Context) error {
	switch {
	case x.w == nil:
		return tidemill.Fail(tidemill.Internal, "commit a transaction: it has ended")
	case x.err != nil:
		x.Abort(ctx)
		return x.err
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := x.w.client.EndTransaction(ending, kgo.TryCommit)
	if err == nil {
		x.t.free <- x.w
		x.w = nil
		return nil
	}
	id := x.w.id
	x.Abort(ctx)
	return tidemill.Fail(tidemill.Unknown, "commit the transaction %s: %w", id, err)
}

// Abort ends the transaction without a trace for readers of committed records. It may be
// called after Commit, and does nothing then.
func (x *Transaction) Abort(ctx context.Context) {
	w := x.w
	if w == nil {
		return
	}
	x.w = nil
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if w.client.AbortBufferedRecords(ending) != nil || w.client.EndTransaction(ending, kgo.TryAbort) != nil || x.old {
		x.t.spoilt(w) // the next one of its name ends what this one left open
		return
	}
	x.t.free <- w
}
