// Package urlsecret finds what may be a secret in a URL, so that it is shown nowhere: some
// services authenticate callers only by ?access_token=… or /webhook/….
//
// A secret cannot be recognised for sure. These count as secrets: user and password, long
// values of the query and all values of parameters with a telling name, and segments of the
// path that look like a key or come behind a telling one. Hiding too much does no harm.
package urlsecret

import (
	"maps"
	"net/url"
	"strings"
	"unicode"
)

// Hidden is shown in place of a secret.
const Hidden = "[secret]"

// In are the secrets of a URL, each in the spellings that it may be shown in.
func In(u *url.URL) (all []string) {
	if u == nil {
		return nil
	}
	if u.User != nil {
		if password, ok := u.User.Password(); ok {
			all = append(all, Spellings(password)...)
		} else {
			all = append(all, Spellings(u.User.Username())...)
		}
	}
	for part := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(value)
		if err != nil {
			plain = value
		}
		switch {
		case value == "" && likeKey(name):
			all = append(all, Spellings(name)...)
		case len(plain) >= 8 || Telling(name):
			all = append(append(all, value), Spellings(plain)...)
		}
	}
	before := ""
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		plain, err := url.PathUnescape(segment)
		if err != nil {
			plain = segment
		}
		if secretSegment(before, plain) {
			all = append(append(all, segment), Spellings(plain)...)
		}
		before = plain
	}
	return all
}

// Show writes a URL without user, query and fragment, and without segments of its path that may
// be secret. Braces, which stand for settings in a URL pattern, stay.
func Show(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	rest, behind, more := cut(rest, "?#")
	host, path, slash := strings.Cut(rest, "/")
	if !found || strings.ContainsAny(scheme, "@:/?#") || strings.Contains(behind, "@") || strings.ContainsAny(path, "@\\") { // a password with such a character in it
		return Hidden
	}
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host, more = host[at+1:], true
	}
	text := scheme + "://" + host
	before := ""
	for segment := range strings.SplitSeq(path, "/") {
		if !slash {
			break
		}
		plain, err := url.PathUnescape(segment)
		if err != nil || secretSegment(before, plain) {
			segment = Hidden
		}
		text += "/" + segment
		before = plain
	}
	if more {
		text += "?" + Hidden
	}
	return text
}

func cut(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// Spellings are the ways in which a secret may be shown: unchanged, as part of a URL, and in
// JSON.
func Spellings(secret string) []string {
	all := []string{secret}
	for _, other := range []string{url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(secret, "/", `\/`)} {
		if other != secret {
			all = append(all, other)
		}
	}
	return all
}

// telling are parts of names whose value is a secret.
var telling = []string{"token", "key", "secret", "sig", "pass", "pwd", "auth", "code", "credential", "cookie"}

// Telling reports whether the name of a parameter, a header or a setting says that its value is
// a secret.
func Telling(name string) bool {
	name = strings.ToLower(name)
	for _, t := range telling {
		if strings.Contains(name, t) {
			return true
		}
	}
	return false
}

// secretSegment reports whether a segment of a path may be a secret, by its form and the
// segment before it.
func secretSegment(before, s string) bool {
	if strings.ContainsAny(s, "{}") { // a setting's place
		return false
	}
	behind := Telling(before) || strings.Contains(strings.ToLower(before), "hook")
	return likeKey(s) || behind && (len(s) >= 12 || len(s) >= 6 && hasDigit(s))
}

// likeKey reports whether a text looks like a key: long, of letters and digits, and not a file.
func likeKey(s string) bool {
	if len(s) < 12 || !hasDigit(s) || !strings.ContainsFunc(s, unicode.IsLetter) {
		return false
	}
	dot := strings.LastIndexByte(s, '.')
	return dot < 0 || len(s)-dot > 6
}

func hasDigit(s string) bool { return strings.ContainsFunc(s, unicode.IsDigit) }

// InHeader says whether the value of a header may be a secret, by its name or by what it is.
func InHeader(name, value string) bool { return Telling(name) || likeKey(value) }

// Headers are the names of headers without their values, each of which may be a secret.
func Headers(headers map[string]string) map[string]string {
	all := maps.Clone(headers)
	for name := range all {
		all[name] = Hidden
	}
	return all
}
