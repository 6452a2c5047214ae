package operation

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// An ETag is made of a payload: who may not see the payload could guess it, and know by the ETag
// whether the guess is right. A field of an answer that is an ETag is therefore tagged
// etagOf:"payload", with the members that it is made of. Where something of these is covered, the
// caller gets an ETag of what is shown.

// changedMeanwhile is the answer to an If-Match of an older version.
const changedMeanwhile = "it was changed meanwhile, and is left as it is: read it again, then change it"

// Seen is the version of an answer that a store is to compare for an If-Match: empty for any. It
// refuses an ETag that is not the one that the caller of the context was shown.
func Seen(ctx context.Context, answer Versioned, match string) (string, error) {
	if match == "" {
		return "", nil
	}
	shown, err := coverOf(ctx).of(answer)
	if err != nil {
		return "", err
	}
	switch tagOf(answer, shown) {
	case answer.Version():
		return match, nil
	case match:
		return answer.Version(), nil
	}
	return "", Refuse(http.StatusPreconditionFailed, changedMeanwhile)
}

// tagOf is the ETag of an answer as it is shown.
func tagOf(answer Versioned, shown any) string {
	b, covered := shown.(json.RawMessage)
	if s := shapeOf(reflect.TypeOf(answer)); covered && s.etag != "" {
		if all, err := membersOf(jsontext.Value(b)); err == nil {
			return all.text(s.etag)
		}
	}
	return answer.Version()
}

// retag gives an object that is covered an ETag of what is shown, where its own is made of what is not.
func (s *shape) retag(whole, shown jsontext.Value) (jsontext.Value, error) {
	before, err := membersOf(whole)
	if err != nil {
		return nil, err
	}
	after, err := membersOf(shown)
	if err != nil {
		return nil, err
	}
	sum, covered := sha256.New(), false
	for i, m := range after {
		if slices.Contains(s.etagOf, m.name) {
			covered = covered || string(m.value) != string(before[i].value)
			sum.Write(append([]byte(m.name+"\x00"), m.value...))
		}
	}
	if !covered {
		return shown, nil
	}
	return eachOf(shown, func(name string, _ members, v jsontext.Value) (jsontext.Value, error) {
		if name == s.etag {
			return quote("shown-" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16])), nil
		}
		return v, nil
	})
}
