// Package redisledger keeps a ledger in Redis: for work that several instances must do once
// between them. Its promises are as durable as that Redis: it needs an append-only file,
// and a failover may lose the last writes.
//
// A ledger is four keys on one slot, that of its name:
//
//	{ledger:name}:entries   key → all of an entry but its payload (head.lua)
//	{ledger:name}:payloads  key → payload, where there is one
//	{ledger:name}:groups    all keys by the time they were created, those of one script in one
//	                        member (list.lua)
//	{ledger:name}:token     the newest token
//
// Each call is one script for up to 250 entries, so most batches take one round trip. All of
// a ledger is on one slot, and so on one node of a cluster: tokens grow and listings are
// sorted over the whole ledger, a batch needs one call with any keys, and one node handles
// more batches than a site has requests. Ledgers of different names spread over the nodes.
// Nothing has a TTL: an entry with an unknown outcome must not vanish by itself. Expire
// removes old entries, in order of creation, and finds them without a scan.
//
// The server's clock decides leases, so the instances' clocks need not agree.
package redisledger

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/ledger"
	"github.com/tidemill/tidemill/state/ledger/internal/rules"
)

// Options tune a ledger; the zero value is ready to use.
type Options struct {
	Name   string           // of the ledger, a-z, 0-9 and _: each has its own keys and its own time to keep them; empty is a name too
	Prefix string           // before the names of its keys in Redis, to share one with other programs; without braces
	Now    func() time.Time // nil means the server's clock, one for all instances
}

// Ledger is a ledger in Redis.
type Ledger struct {
	client rueidis.Client
	now    func() time.Time
	name   string
	keys   []string // entries, payloads, groups, token
}

var _ ledger.Store = (*Ledger)(nil)

// New opens the ledger of that name.
func New(client rueidis.Client, o Options) (*Ledger, error) {
	if client == nil {
		return nil, errors.New("a ledger in Redis needs a connection")
	}
	if err := rules.CheckName(o.Name); err != nil {
		return nil, err
	}
	for _, c := range []byte(o.Prefix) {
		if c == '{' || c == '}' {
			return nil, fmt.Errorf("prefix %q of a ledger's keys: braces are for its own slot", o.Prefix)
		}
	}
	tag := "{" + o.Prefix + "ledger:" + o.Name + "}:"
	return &Ledger{client: client, now: o.Now, name: o.Name, keys: []string{tag + "entries", tag + "payloads", tag + "groups", tag + "token"}}, nil
}

// batch is how many entries one script handles: enough to make the round trip cheap, few
// enough that Redis, which does nothing else meanwhile, needs about a millisecond.
const batch = 250

var (
	//go:embed head.lua
	headLua string
	//go:embed list.lua
	listLua string
	//go:embed listed.lua
	listedLua string
	//go:embed begin.lua
	beginLua string
	//go:embed end.lua
	endLua string
	//go:embed find.lua
	findLua string
	//go:embed page.lua
	pageLua string
	//go:embed expire.lua
	expireLua string

	beginScript  = rueidis.NewLuaScript(headLua + listLua + beginLua)
	endScript    = rueidis.NewLuaScript(headLua + listLua + listedLua + endLua)
	findScript   = rueidis.NewLuaScript(findLua)
	pageScript   = rueidis.NewLuaScript(headLua + listLua + listedLua + pageLua)
	expireScript = rueidis.NewLuaScript(headLua + listLua + listedLua + expireLua)
)

// clock is now in the form of the scripts.
func (l *Ledger) clock() string {
	if l.now == nil {
		return ""
	}
	return decimal(l.now().UnixMilli())
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Begin implements ledger.Ledger.
func (l *Ledger) Begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ledger.CheckBegin(es); err != nil || len(es) == 0 {
		return err
	}
	opened := make(map[string]*ledger.Record, len(es)) // in this call
	for todo := es; len(todo) > 0; {
		one, rest := rules.Round(todo, batch)
		n := 0
		for _, e := range one {
			if r := opened[e.Key]; r != nil { // given twice
				r.Answer(e, ledger.Shut)
				continue
			}
			one[n] = e
			n++
		}
		if err := l.begin(ctx, one[:n], o, opened); err != nil {
			return redisconn.Error(err, "begin %d entries of ledger %q", len(es), l.name)
		}
		todo = rest
	}
	return nil
}

// begin runs the script once, for entries of different keys.
func (l *Ledger) begin(ctx context.Context, es []*ledger.Entry, o ledger.Begin, opened map[string]*ledger.Record) error {
	if len(es) == 0 {
		return nil
	}
	lease := ledger.Instant(time.UnixMilli(0).Add(o.Lasts())).UnixMilli()
	args := make([]string, 0, 4+7*len(es))
	args = append(args, l.clock(), decimal(lease), flag(o.Anew), strconv.Itoa(len(es)))
	for _, e := range es {
		args = append(args, e.Key)
	}
	for _, e := range es {
		args = append(args, string(binary.LittleEndian.AppendUint64(nil, e.Call)), e.Holder, e.Tenant, e.Type, rueidis.BinaryString(e.Print), rueidis.BinaryString(e.Payload))
	}
	answers, err := beginScript.Exec(ctx, l.client, l.keys, args).ToArray()
	if err == nil && len(answers) != len(es)+1 {
		err = errAnswer
	}
	if err != nil {
		return err
	}
	milli, err := answers[0].AsInt64()
	if err != nil {
		return err
	}
	now := time.UnixMilli(milli).UTC()
	for i, e := range es {
		a := &answers[i+1]
		if a.IsInt64() {
			token, err := a.AsInt64()
			switch {
			case err != nil:
				return err
			case token == 0:
				e.Refuse()
			default:
				r := new(ledger.Record)
				r.Answer(e, r.Begin(e, o, uint64(token), now))
				opened[e.Key] = r
			}
			continue
		}
		of, err := a.ToArray()
		if err != nil || len(of) != 3 {
			return errors.Join(errAnswer, err)
		}
		how, err := of[0].AsInt64()
		if err != nil {
			return err
		}
		r, err := record(e.Key, of[1:])
		if err != nil || r == nil {
			return errors.Join(errAnswer, err)
		}
		if r.Answer(e, ledger.Opening(how)); how > 0 {
			opened[e.Key] = r
		}
	}
	return nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// End implements ledger.Ledger.
func (l *Ledger) End(ctx context.Context, es []*ledger.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ledger.CheckEnd(es); err != nil {
		return err
	}
	for rest := es; len(rest) > 0; rest = rest[min(batch, len(rest)):] {
		if err := l.end(ctx, rest[:min(batch, len(rest))]); err != nil {
			return redisconn.Error(err, "end %d entries of ledger %q", len(es), l.name)
		}
	}
	return nil
}

func (l *Ledger) end(ctx context.Context, es []*ledger.Entry) error {
	args := make([]string, 0, 2+5*len(es))
	args = append(args, l.clock(), strconv.Itoa(len(es)))
	for _, e := range es {
		args = append(args, e.Key)
	}
	for _, e := range es {
		args = append(args, strconv.FormatUint(e.Token, 10), strconv.Itoa(int(e.State)), rueidis.BinaryString(e.Result), ledger.Cause(e.Err))
	}
	ended, err := endScript.Exec(ctx, l.client, l.keys[:3], args).AsIntSlice()
	if err == nil && len(ended) != len(es) {
		err = errAnswer
	}
	if err != nil {
		return err
	}
	for i, e := range es {
		if e.Stale = ended[i] < 0; !e.Stale && ended[i] > 0 {
			e.Ended = time.UnixMilli(ended[i]).UTC()
		}
	}
	return nil
}
