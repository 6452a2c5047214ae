// Package project is the role that knows whose events are accepted: projects and their
// ingest keys. It keeps only the SHA-256 of a key.
//
// Backends: tableproject, on any table, and postgresproject, in the tables of another program.
// redisproject is a cache of keys. Promises are cases of projecttest.
package project

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
)

// Namespace of project ids made from names: UUIDv5 of the lower-case name under it.
var Namespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://tidemill.dev/projects"))

// ErrUnknown says that the project or key does not exist.
var ErrUnknown = errors.New("no such project")

// ErrKeyTaken says that the key belongs to another project.
var ErrKeyTaken = errors.New("the ingest key belongs to another project; give each project keys of its own")

// Project is one tenant of the ingest API.
type Project struct {
	ID   uuid.UUID
	Name string
}

// Check refuses a project without an id.
func (p Project) Check() error {
	if p.ID == uuid.Nil {
		return fmt.Errorf("project %q has no id", p.Name)
	}
	return nil
}

// Hash of an ingest key: the form in which it is kept and looked up.
type Hash [sha256.Size]byte

// HashOf hashes a key.
func HashOf(key tidemill.Secret) Hash { return sha256.Sum256([]byte(key.Reveal())) }

// ID is the project id of a name: the name itself where it is a UUID, else a UUIDv5.
func ID(name string) uuid.UUID {
	if id, err := uuid.Parse(name); err == nil {
		return id
	}
	return uuid.NewSHA1(Namespace, []byte(strings.ToLower(name)))
}

// NewKey makes a key that nobody can guess, of random bytes.
func NewKey(random io.Reader) (tidemill.Secret, error) {
	raw := make([]byte, 24)
	if _, err := io.ReadFull(random, raw); err != nil {
		return tidemill.Secret{}, fmt.Errorf("make an ingest key: %w", err)
	}
	return tidemill.NewSecret("tm_" + base64.RawURLEncoding.EncodeToString(raw)), nil
}

// CheckKey refuses keys that no client could send: 1 to 128 printable ASCII characters. Nor is a key
// what is shown in place of one.
func CheckKey(key string) error {
	if key == (tidemill.Secret{}).String() {
		return fmt.Errorf("%s stands for a key that is not shown: give the key itself", key)
	}
	if len(key) < 1 || len(key) > 128 {
		return fmt.Errorf("an ingest key has 1 to 128 characters, this one has %d", len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("an ingest key is printable ASCII without spaces; character %d is not", i+1)
		}
	}
	return nil
}

// Projects is the role.
type Projects interface {
	// Ensure creates the project and its key; both may exist already. A project may have
	// several keys; its name is the one given last. A key belongs to one project: giving it
	// to another is ErrKeyTaken and changes nothing.
	Ensure(ctx context.Context, p Project, key Hash) error
	// ByKey finds the project of a key, or returns ErrUnknown.
	ByKey(ctx context.Context, key Hash) (Project, error)
	// Find finds a project by id, or returns ErrUnknown.
	Find(ctx context.Context, id uuid.UUID) (Project, error)
	// List returns all projects, sorted by name.
	List(ctx context.Context) ([]Project, error)
}

// Keys is what admins do with the keys of projects.
type Keys interface {
	// Keys are the hashes of a project's keys, sorted; of a project that there is not: none.
	Keys(ctx context.Context, id uuid.UUID) ([]Hash, error)
	// Revoke takes a key away: ByKey knows it no more. ErrUnknown says that the project has no such
	// key. Who remembers a key takes it for a while longer.
	Revoke(ctx context.Context, id uuid.UUID, key Hash) error
}

// Store is the whole role.
type Store interface {
	Projects
	Keys
}
