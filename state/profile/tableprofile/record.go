package tableprofile

import (
	"bytes"
	"time"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/internal/rules"
	"github.com/tidemill/tidemill/state/table"
)

// Record is a profile, or one of its identities, which leads to it.
type Record struct {
	// key is the kind of the identity as a digit, or p for a profile; the tenant; a zero byte,
	// which no tenant has; the identity's value, or the profile's id. So an identity is locked
	// before any profile.
	key string

	profile []byte // of an identity: the id of its profile

	// The others are a profile's.
	identities       []byte // sorted, a line for each: the kind's digit and the value, which has no end of a line
	created, updated time.Time
	attributes       []byte // the values as one JSON object, for programs that read by SQL
	registers        []byte // what rules.Registers stores
}

// Spec is what a record is. Its views have the columns tenant, id, created, updated and
// attributes of profiles; tenant, kind (1 external id, 2 email, 3 phone), value and profile of
// identities. Attributes are one JSON object, its values as received; only escapes of NUL and of
// halves of surrogate pairs, which PostgreSQL cannot read, are \ufffd there.
func Spec() table.Spec[Record] {
	return table.Spec[Record]{Name: "profile_record", Fields: []table.Field[Record]{
		{Name: "key", At: func(r *Record) any { return &r.key }},
		{Name: "profile", At: func(r *Record) any { return &r.profile }},
		{Name: "identities", At: func(r *Record) any { return &r.identities }},
		{Name: "created", At: func(r *Record) any { return &r.created }},
		{Name: "updated", At: func(r *Record) any { return &r.updated }},
		{Name: "attributes", At: func(r *Record) any { return &r.attributes }},
		{Name: "registers", At: func(r *Record) any { return &r.registers }},
	}, Views: []table.View{{Name: "profile",
		SQLite: "SELECT CAST(substr(key, 2, instr(key, x'00') - 2) AS TEXT) AS tenant, substr(key, instr(key, x'00') + 1) AS id," +
			" created, updated, CAST(attributes AS TEXT) AS attributes FROM profile_record WHERE key >= x'70'",
		Postgres: `SELECT convert_from(substring(key FROM 2 FOR position('\x00'::bytea IN key) - 2), 'UTF8') AS tenant,` +
			` encode(substring(key FROM position('\x00'::bytea IN key) + 1), 'hex')::uuid AS id,` +
			` created, updated, convert_from(attributes, 'UTF8')::json AS attributes FROM @tidemill_profile_record WHERE key >= '\x70'`,
	}, {Name: "profile_identity",
		SQLite: "SELECT CAST(substr(key, 2, instr(key, x'00') - 2) AS TEXT) AS tenant, CAST(CAST(substr(key, 1, 1) AS TEXT) AS INTEGER) AS kind," +
			" CAST(substr(key, instr(key, x'00') + 1) AS TEXT) AS value, profile FROM profile_record WHERE key < x'70'",
		Postgres: `SELECT convert_from(substring(key FROM 2 FOR position('\x00'::bytea IN key) - 2), 'UTF8') AS tenant,` +
			` (get_byte(key, 0) - 48)::smallint AS kind, convert_from(substring(key FROM position('\x00'::bytea IN key) + 1), 'UTF8') AS value,` +
			` encode(profile, 'hex')::uuid AS profile FROM @tidemill_profile_record WHERE key < '\x70'`,
	}}}
}

func digit(k profile.Kind) byte { return '0' + byte(k) }

// keyOf is the key of a profile.
func keyOf(o rules.Owner) string { return "p" + o.Tenant + "\x00" + string(o.ID[:]) }

// nameKey is the key of an identity.
func nameKey(n rules.Name) string { return string(digit(n.Kind)) + n.Tenant + "\x00" + n.Value }

func keysOf[T any](all []T, key func(T) string) []string {
	keys := make([]string, len(all))
	for i, one := range all {
		keys[i] = key(one)
	}
	return keys
}

// lines are identities as a record has them.
func lines(is []profile.Identity) (b []byte) {
	for _, i := range is {
		b = append(append(append(b, digit(i.Kind)), i.Value...), '\n')
	}
	return b
}

// has are the identities of a profile.
func (r *Record) has() (is []profile.Identity) {
	for line := range bytes.Lines(r.identities) {
		is = append(is, profile.Identity{Kind: profile.Kind(line[0] - '0'), Value: string(bytes.TrimSuffix(line[1:], []byte{'\n'}))})
	}
	return is
}

// show is a profile of a tenant.
func (r *Record) show(tenant string) (*profile.Profile, error) {
	id := uuid.UUID([]byte(r.key[len(r.key)-len(uuid.UUID{}):]))
	registers, err := rules.Decode(id, r.registers)
	if err != nil {
		return nil, err
	}
	full := rules.Record{Owner: rules.Owner{Tenant: tenant, ID: id}, Created: r.created, Updated: r.updated, Registers: registers}
	return full.Show(r.has()), nil
}
