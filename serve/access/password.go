package access

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/state/access"
)

// Bounds of a password, in characters.
const (
	LeastPassword = 12
	MostPassword  = 128
)

// Cost is what hashing a password with argon2id takes.
type Cost struct {
	KiB    uint32
	Passes uint32
}

// UsualCost is that of passwords: 19 MiB, two passes, one lane.
var UsualCost = Cost{KiB: 19 << 10, Passes: 2}

const (
	hashing  = 2  // passwords at once
	waiting  = 16 // passwords that may wait for that
	saltSize = 16
	hashSize = 32
)

// hasher hashes passwords, a few at a time: each takes memory.
type hasher struct {
	cost Cost
	rand io.Reader
	at   chan struct{} // has a place for each that is hashed
	in   chan struct{} // has a place for each that is hashed or waits
}

func newHasher(c Cost, rand io.Reader) *hasher {
	return &hasher{c, rand, make(chan struct{}, hashing), make(chan struct{}, hashing+waiting)}
}

// run hashes.
func (h *hasher) run(ctx context.Context, password string, salt []byte, c Cost) ([]byte, error) {
	select {
	case h.in <- struct{}{}:
		defer func() { <-h.in }()
	default:
		p := operation.Refuse(http.StatusTooManyRequests, "too many people log in at once: try again in a moment")
		p.After = 2
		return nil, p
	}
	select {
	case h.at <- struct{}{}:
		defer func() { <-h.at }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return argon2.IDKey([]byte(password), salt, c.Passes, c.KiB, 1, hashSize), nil
}

// hash is a password as it is kept, in the form of PHC.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltSize)
	if _, err := io.ReadFull(h.rand, salt); err != nil {
		return "", err
	}
	sum, err := h.run(ctx, password, salt, h.cost)
	text := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", h.cost.KiB, h.cost.Passes, text(salt), text(sum)), err
}

// check says whether a password is the one of a hash, and whether the hash is of a lower cost than
// new ones. Of an empty hash none is, which takes as long.
func (h *hasher) check(ctx context.Context, password, hash string) (right, old bool, err error) {
	c, salt, want := h.cost, make([]byte, saltSize), make([]byte, hashSize)
	if hash != "" {
		if c, salt, want, err = parse(hash); err != nil {
			return false, false, err
		}
	}
	got, err := h.run(ctx, password, salt, c)
	if err != nil {
		return false, false, err
	}
	right = subtle.ConstantTimeCompare(got, want) == 1 && hash != ""
	return right, c.KiB < h.cost.KiB || c.Passes < h.cost.Passes, nil
}

var phc = regexp.MustCompile(`^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,2}),p=1\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$`)

func parse(hash string) (c Cost, salt, sum []byte, err error) {
	m := phc.FindStringSubmatch(hash)
	if m == nil {
		return c, nil, nil, errors.New("a password is kept in a form that is not known")
	}
	_, err = fmt.Sscan(m[1]+" "+m[2], &c.KiB, &c.Passes)
	if err == nil {
		salt, err = base64.RawStdEncoding.DecodeString(m[3])
	}
	if err == nil {
		sum, err = base64.RawStdEncoding.DecodeString(m[4])
	}
	return c, salt, sum, err
}

// CheckPassword is the user of a name whose password it is; access.ErrUnknown where it is not, or
// there is none, which takes as long. A hash of a lower cost than new ones is made anew.
func (g *Guard) CheckPassword(ctx context.Context, name, password string) (u access.Grant, err error) {
	if CheckName(name) == nil {
		u, err = g.o.Store.Get(ctx, access.User, name)
	}
	if err != nil && !errors.Is(err, access.ErrUnknown) {
		return u, err
	}
	if utf8.RuneCountInString(password) > MostPassword {
		password = ""
	}
	right, old, err := g.hasher.check(ctx, password, u.Hash)
	if err == nil && !right {
		err = access.ErrUnknown
	}
	if err != nil || !old {
		return u, err
	}
	if hash, err := g.hasher.hash(ctx, password); err == nil {
		if now, err := g.rehash(ctx, u, hash); err == nil && now.Hash == hash { // else the next login tries again
			u.Hash = hash
		}
	}
	return u, nil
}

// rehash keeps the same password in another form, unless it was changed meanwhile.
func (g *Guard) rehash(ctx context.Context, u access.Grant, hash string) (access.Grant, error) {
	return g.o.Store.Change(ctx, access.User, u.ID, access.Change{Anew: true, Do: func(now *access.Grant) error {
		if now.Hash == u.Hash {
			now.Hash = hash
		}
		return nil
	}})
}

// Hash checks a new password of a user, and returns it as it is kept.
func (g *Guard) Hash(ctx context.Context, name, password string) (string, error) {
	if err := newPassword(name, password); err != nil {
		return "", operation.Refuse(http.StatusBadRequest, "%v", err)
	}
	return g.hasher.hash(ctx, password)
}

//go:embed common.txt
var commonText string

var common = sync.OnceValue(func() []string { return strings.Fields(commonText) })

// newPassword says why a password is none to be given.
func newPassword(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case !utf8.ValidString(password):
		return errors.New("the password is no text")
	case n < LeastPassword || n > MostPassword:
		return fmt.Errorf("the password has %d characters: it needs %d to %d", n, LeastPassword, MostPassword)
	case slices.Contains(common(), strings.ToLower(password)):
		return errors.New("this password is one of the most common ones: take another")
	case strings.EqualFold(password, name):
		return errors.New("the password is the name: take another")
	}
	return nil
}

var names = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]{0,63}$`)

// CheckName says why a name is none for a user or a token.
func CheckName(name string) error {
	switch {
	case name == "local" || name == "nobody":
		return fmt.Errorf("the name %s is taken by Tidemill itself", name)
	case !names.MatchString(name):
		return fmt.Errorf("%.80q is no name: it has 1 to 64 of a-z, 0-9, and after the first one of . _ @ + - too", name)
	}
	return nil
}
