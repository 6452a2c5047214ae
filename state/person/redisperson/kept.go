package redisperson

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	json "github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
	"github.com/tidemill/tidemill/state/person"
)

// kept is person.Kept on a list, the newest first.
type kept struct {
	client rueidis.Client
	o      Options
	ids    func(context.Context, []person.Ref) map[person.Ref]uuid.UUID // as far as they are known
	known  distinct                                                     // nil: not possible
}

// distinct finds a distinct id of a person: person.ErrUnknown if the person does not exist.
type distinct interface {
	DistinctOf(ctx context.Context, project, id uuid.UUID) (string, error)
}

func knownBy(store person.Store) distinct {
	d, _ := store.(distinct)
	return d
}

// Keep is person.Kept.
func (s *Store) Keep(ctx context.Context, merges []person.Merge) error {
	return s.kept.keep(ctx, merges)
}

// Oldest is person.Kept.
func (s *Store) Oldest(ctx context.Context, most int) ([]person.Merge, error) {
	return s.kept.oldest(ctx, most)
}

// Done is person.Kept.
func (s *Store) Done(ctx context.Context, merges []person.Merge) error {
	return s.kept.done(ctx, merges)
}

// merge is a failed merge as it is on the list. The first three fields are those that the
// list always had; an entry with nothing else comes from another program.
type merge struct {
	Project uuid.UUID `json:"projectId"`
	From    uuid.UUID `json:"fromPersonId"`
	Into    uuid.UUID `json:"intoPersonId"`

	Claim    string    `json:"claim,omitempty"` // what makes two of them one
	Distinct name      `json:"distinctId,omitzero"`
	Other    name      `json:"otherId,omitzero"`
	Event    uuid.UUID `json:"event,omitzero"`
	At       int64     `json:"at,omitzero"` // unix milliseconds
	Force    bool      `json:"force,omitzero"`
}

// name is a distinct id: as text where it is text, else as bytes.
type name struct {
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"` // base64
}

func nameOf(s string) name {
	if utf8.ValidString(s) {
		return name{Text: s}
	}
	return name{Bytes: []byte(s)}
}

func (n name) String() string {
	if len(n.Bytes) > 0 {
		return string(n.Bytes)
	}
	return n.Text
}

// claim names a merge by the fields that make two of them one.
func claim(m *person.Merge) string {
	h := sha256.New()
	for _, part := range []string{m.Project.String(), m.Distinct, m.Other, m.Event.String(), strconv.FormatBool(m.Force)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// keepScript adds entries with new claims, all of them or none. An entry that cannot be read
// has no claim.
// KEYS list   ARGV most, claim, entry, claim, entry…
var keepScript = rueidis.NewLuaScript(`
local known = {}
for _, e in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local ok, m = pcall(cjson.decode, e)
  if ok and type(m) == 'table' and type(m.claim) == 'string' then known[m.claim] = true end
end
local new = {}
for i = 2, #ARGV, 2 do
  if not known[ARGV[i]] then
    known[ARGV[i]] = true
    new[#new + 1] = ARGV[i + 1]
  end
end
if #new > 0 and redis.call('LLEN', KEYS[1]) + #new > tonumber(ARGV[1]) then return -1 end
for _, e in ipairs(new) do redis.call('LPUSH', KEYS[1], e) end
return #new`)

// keep adds merges that are not on the list.
func (k *kept) keep(ctx context.Context, merges []person.Merge) error {
	if err := ctx.Err(); err != nil || len(merges) == 0 {
		return err
	}
	refs := make([]person.Ref, 0, 2*len(merges))
	for i := range merges {
		refs = append(refs, merges[i].Ref, person.Ref{Project: merges[i].Project, Distinct: merges[i].Other})
	}
	ids := k.ids(ctx, refs) // for other readers of the list only
	of := func(r person.Ref) uuid.UUID {
		if id := ids[r]; id != uuid.Nil {
			return id
		}
		return person.ID(r)
	}
	args := make([]string, 0, 1+2*len(merges))
	args = append(args, strconv.Itoa(person.MaxKept))
	for i := range merges {
		m := &merges[i]
		e, err := json.Marshal(merge{Project: m.Project, From: of(person.Ref{Project: m.Project, Distinct: m.Other}), Into: of(m.Ref),
			Claim: claim(m), Distinct: nameOf(m.Distinct), Other: nameOf(m.Other), Event: m.Event, At: m.At.UnixMilli(), Force: m.Force})
		if err != nil {
			return fmt.Errorf("keep a failed merge: %w", err)
		}
		args = append(args, claim(m), string(e))
	}
	n, err := keepScript.Exec(ctx, k.client, []string{k.o.Kept}, args).AsInt64()
	if err != nil {
		return redisconn.Error(err, "keep %d failed merges", len(merges))
	}
	if n < 0 {
		return fmt.Errorf("keep %d failed merges: %w", len(merges), person.ErrKeptFull)
	}
	return nil
}

// maxRead is how much of the list is read: another program might push without a limit.
const maxRead = 10 * person.MaxKept

// entries are those on the list, the oldest first.
func (k *kept) entries(ctx context.Context) ([]string, error) {
	all, err := k.client.Do(ctx, k.client.B().Lrange().Key(k.o.Kept).Start(-maxRead).Stop(-1).Build()).AsStrSlice()
	if err != nil {
		return nil, redisconn.Error(err, "read failed merges")
	}
	slices.Reverse(all)
	return all, nil
}

// decode reads an entry. An entry of another program names persons; its claim is made of
// its bytes.
func decode(raw string) (m merge, foreign, ok bool) {
	if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Project == uuid.Nil {
		return m, false, false
	}
	if m.Claim == "" {
		m.Event = uuid.NewSHA1(person.Namespace, []byte(raw))
		return m, true, m.From != uuid.Nil && m.Into != uuid.Nil
	}
	return m, false, true
}

// oldest returns kept merges. Entries of other programs name persons; where the store does
// not know their distinct ids, the entries are skipped and stay.
func (k *kept) oldest(ctx context.Context, most int) ([]person.Merge, error) {
	if err := ctx.Err(); err != nil || most <= 0 {
		return nil, err
	}
	all, err := k.entries(ctx)
	if err != nil {
		return nil, err
	}
	var merges []person.Merge
	for _, raw := range all {
		if len(merges) == most {
			break
		}
		m, foreign, ok := decode(raw)
		if !ok {
			// Logged when the list of failed merges, which other programs may write too, has an entry
			// that is none.
			// To do: look at the list in Redis (LRANGE), and remove what is not wanted.
			k.o.Log.WarnContext(ctx, "an entry of the failed merges cannot be read; it stays where it is", "key", k.o.Kept)
			continue
		}
		if foreign {
			if ok, err = k.name(ctx, raw, &m); err != nil {
				return nil, fmt.Errorf("read failed merges: %w", err)
			}
			if !ok {
				continue
			}
		}
		merges = append(merges, person.Merge{Ref: person.Ref{Project: m.Project, Distinct: m.Distinct.String()}, Other: m.Other.String(),
			Event: m.Event, At: time.UnixMilli(m.At).UTC(), Force: m.Force})
	}
	return merges, nil
}

// name finds distinct ids of the persons that another program names. Where the person to be
// merged is gone, it has been merged already, and the entry is removed.
func (k *kept) name(ctx context.Context, raw string, m *merge) (ok bool, err error) {
	if k.known == nil {
		// Logged when a failed merge has ids of persons, and the store of persons is one that cannot
		// look them up; it stays in the list.
		// To do: keep persons in the PostgreSQL that the other program uses.
		k.o.Log.WarnContext(ctx, "a failed merge of another program names persons, and the store cannot say which distinct ids are theirs", "key", k.o.Kept)
		return false, nil
	}
	from, err := k.known.DistinctOf(ctx, m.Project, m.From)
	if errors.Is(err, person.ErrUnknown) {
		// Logged when the person to be merged is gone: it was merged already.
		k.o.Log.InfoContext(ctx, "a failed merge of another program is done: the person is not there any more", "project", m.Project, "person", m.From)
		return false, k.remove(ctx, raw)
	}
	if err != nil {
		return false, err
	}
	into, err := k.known.DistinctOf(ctx, m.Project, m.Into)
	if errors.Is(err, person.ErrUnknown) {
		// Logged when a failed merge is into a person that the store does not have; it stays in the
		// list.
		// To do: see whether the other program stores persons in the same database.
		k.o.Log.WarnContext(ctx, "a failed merge of another program waits for a person that is not stored", "project", m.Project, "person", m.Into)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.Distinct, m.Other, m.At = nameOf(into), nameOf(from), k.o.Now().UnixMilli()
	return true, nil
}

func (k *kept) remove(ctx context.Context, entries ...string) error {
	cmds := make(rueidis.Commands, len(entries))
	for i, raw := range entries {
		cmds[i] = k.client.B().Lrem().Key(k.o.Kept).Count(0).Element(raw).Build()
	}
	if len(cmds) == 0 {
		return nil
	}
	for _, answer := range k.client.DoMulti(ctx, cmds...) {
		if err := answer.Error(); err != nil {
			return redisconn.Error(err, "remove %d failed merges", len(entries))
		}
	}
	return nil
}

// done removes merges.
func (k *kept) done(ctx context.Context, merges []person.Merge) error {
	if err := ctx.Err(); err != nil || len(merges) == 0 {
		return err
	}
	all, err := k.entries(ctx)
	if err != nil {
		return err
	}
	claims, events := map[string]bool{}, map[uuid.UUID]bool{}
	for i := range merges {
		claims[claim(&merges[i])] = true
		events[merges[i].Event] = true
	}
	var done []string
	for _, raw := range all {
		if m, foreign, ok := decode(raw); ok && (foreign && events[m.Event] || !foreign && claims[m.Claim]) {
			done = append(done, raw)
		}
	}
	return k.remove(ctx, done...)
}
