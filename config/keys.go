package config

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/urlsecret"
	"github.com/tidemill/tidemill/state/project"
)

// LeastKey is how long a key is at least that nobody can guess: 16 characters of 64 kinds are 96
// bits. Where others than this machine can try, the API's is no shorter, and no new key of a project.
const LeastKey = 16

// errHidden refuses what was copied from where secrets are not shown, such as config show.
var errHidden = errors.New(urlsecret.Hidden + " stands for a secret that is not shown: give the secret itself")

// hidden says whether a text is, or is an address with, what is shown in place of a secret.
func hidden(text string) bool {
	return text == urlsecret.Hidden || strings.HasSuffix(text, "?"+urlsecret.Hidden) || strings.Contains(text, "://") && strings.Contains(text, urlsecret.Hidden)
}

// hiddenIn is errHidden with the setting that has such a text, if one of a value of JSON does.
func hiddenIn(path string, v any) error {
	switch v := v.(type) {
	case string:
		if hidden(v) {
			return fmt.Errorf("%s: %w", path, errHidden)
		}
	case []any:
		for i := range v {
			if err := hiddenIn(fmt.Sprintf("%s[%d]", path, i), v[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if err := hiddenIn(strings.TrimPrefix(path+"."+name, "."), v[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Secret finds a secret that settings name: the value of a variable, or of the file that
// NAME_FILE names, as it was when it was first asked for.
func (c *Loaded) Secret(name string) (tidemill.Secret, bool) {
	if c.secrets == nil { // nothing loaded it
		return tidemill.Secret{}, false
	}
	return c.secrets.of(name, func() (tidemill.Secret, bool) { return c.readSecret(name) })
}

// secrets are those that were read, by their names.
type secrets struct {
	mu  sync.Mutex
	all map[string]tidemill.Secret // zero: there is none
}

func (s *secrets) of(name string, read func() (tidemill.Secret, bool)) (tidemill.Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, known := s.all[name]; known {
		return v, !v.IsZero()
	}
	v, found := read()
	s.all[name] = v
	return v, found
}

// known is a secret that was read.
func (s *secrets) known(name string) (v tidemill.Secret, read bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, read = s.all[name]
	return v, read
}

func (c *Loaded) readSecret(name string) (tidemill.Secret, bool) {
	if c.getenv == nil {
		return tidemill.Secret{}, false
	}
	if v := c.getenv(name); v != "" {
		return tidemill.NewSecret(v), true
	}
	if path := c.getenv(name + "_FILE"); path != "" {
		return secretFile(path)
	}
	if c.standIns && name != "" {
		return standIn(name), true
	}
	return tidemill.Secret{}, false
}

// standIn stands for a secret that is not set. It has the form of Standard Webhooks, whose secrets have
// one, and is of this name alone, because two keys must not be equal.
func standIn(name string) tidemill.Secret {
	hash := sha256.Sum256([]byte("not set: " + name))
	return tidemill.NewSecret("whsec_" + base64.StdEncoding.EncodeToString(hash[:]))
}

// secretFile reads a secret, without what ends its line.
func secretFile(path string) (tidemill.Secret, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return tidemill.Secret{}, false
	}
	return tidemill.NewSecret(strings.TrimRight(string(b), "\r\n")), true
}

// KeyHashes are the hashes of keys that are given as they are, by variables, or as hashes.
func (c *Loaded) KeyHashes(whose string, keys []tidemill.Secret, variables, hashes []string) ([]project.Hash, error) {
	var all []project.Hash
	add := func(key tidemill.Secret) error {
		if err := project.CheckKey(key.Reveal()); err != nil {
			return fmt.Errorf("%s: %w", whose, err)
		}
		all = append(all, project.HashOf(key))
		return nil
	}
	for _, k := range keys {
		if err := add(k); err != nil {
			return nil, err
		}
	}
	for _, name := range variables {
		k, ok := c.Secret(name)
		if !ok {
			return nil, fmt.Errorf("%s: keys_env: neither %s nor %s_FILE is set", whose, name, name)
		}
		if err := add(k); err != nil {
			return nil, err
		}
	}
	for _, text := range hashes {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(project.Hash{}) {
			return nil, fmt.Errorf("%s: keys_sha256: %q is not 64 hexadecimal digits", whose, text)
		}
		all = append(all, project.Hash(b))
	}
	return all, nil
}

// ShortKeys warns of keys that can be guessed, of what is at a place.
func (c *Loaded) ShortKeys(place, whose string, keys []tidemill.Secret, variables []string) (all []string) {
	for _, name := range variables {
		if k, ok := c.Secret(name); ok {
			keys = append(slices.Clone(keys), k)
		}
	}
	for _, k := range keys {
		if n := len(k.Reveal()); n < LeastKey {
			all = append(all, fmt.Sprintf("%s: a key of %s has %d characters, which can be guessed: use %d or more", place, whose, n, LeastKey))
		}
	}
	return all
}
