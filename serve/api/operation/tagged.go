package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
)

// An edit is compared with the version of what it edits, alone: that a queue has a job more is nothing
// to who changes its settings. A read is compared with the whole answer, or else who asks again for
// what they have would be told that all of it is as it was. So the ETag of a read is the version, a
// point, and a sum of the answer.

// tagged answers with what has an ETag, or says to a read that it is as it was.
func tagged(w http.ResponseWriter, r *http.Request, shown any, version string) error {
	body, err := json.Marshal(shown)
	if err != nil {
		return err
	}
	if reads(r) {
		sum := sha256.Sum256(body)
		version += "." + hex.EncodeToString(sum[:8])
	}
	if asItWas(w, r, quoted(version)) {
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client is gone, or will see that it is cut
	return nil
}

// reads says whether a request is a read.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// asItWas gives an answer its ETag, and says so to a read that has that one already.
func asItWas(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	if reads(r) && isOne(tag, r.Header.Values(IfNoneMatch)) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	return false
}

// quoted is a version as an ETag.
func quoted(version string) string { return `"` + version + `"` }

// editedPart is the version in an ETag, without its quotes.
func editedPart(tag string) string {
	if version, _, of := strings.Cut(tag, "."); of && version != "" {
		return version
	}
	return tag
}

// isOne says whether an ETag is one of those of an If-None-Match.
func isOne(tag string, given []string) bool {
	for _, list := range given {
		for one := range strings.SplitSeq(list, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == tag || one == Whatever {
				return true
			}
		}
	}
	return false
}
