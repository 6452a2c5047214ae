package enrich

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/ua-parser/uap-go/uaparser"
)

// rules are uap-core's, in its order; the first match decides. They are several hundred regular
// expressions. Trying them one after the other takes 700 µs. Most can only match a string that
// contains some literal text, which is looked for first.
type rules struct {
	browsers []rule[uaparser.UserAgent]
	systems  []rule[uaparser.Os]
}

// rule is one regular expression. match leaves its target unchanged if it does not match.
type rule[T any] struct {
	needs []string // lower case; a match contains at least one of them; nil: it could match anything
	match func(ua string, into *T)
}

// line is a user agent string with what the rules need of it.
type line struct {
	ua, lower string
	ascii     bool // if false, positions in ua and lower may differ
}

func newLine(ua string) line {
	l := line{ua: ua, lower: strings.ToLower(ua), ascii: true}
	for i := range len(ua) {
		if ua[i] >= utf8.RuneSelf {
			l.ascii = false
			break
		}
	}
	return l
}

func newRules() (rules, error) {
	p, err := uaparser.New(uaparser.WithCacheSize(1)) // its own cache is not used
	if err != nil {
		return rules{}, fmt.Errorf("compile the rules: %w", err)
	}
	var r rules
	for _, u := range p.UA {
		needs, err := needsOf(u.Flags, u.Expr)
		if err != nil {
			return rules{}, err
		}
		r.browsers = append(r.browsers, rule[uaparser.UserAgent]{needs, u.Match})
	}
	for _, o := range p.OS {
		needs, err := needsOf(o.Flags, o.Expr)
		if err != nil {
			return rules{}, err
		}
		r.systems = append(r.systems, rule[uaparser.Os]{needs, o.Match})
	}
	return r, nil // the device rules are left to the garbage collector
}

// could reports whether the rule may match: false is certain, true is not.
func (r *rule[T]) could(l line) bool {
	if r.needs == nil {
		return true
	}
	for _, s := range r.needs {
		if strings.Contains(l.lower, s) {
			return true
		}
	}
	return false
}

// userAgent returns the result of the first matching browser rule; an empty family: none
// matched.
func (r *rules) userAgent(l line) (ua uaparser.UserAgent) {
	for i := range r.browsers {
		if b := &r.browsers[i]; b.could(l) {
			if b.match(l.ua, &ua); ua.Family != "" {
				return ua
			}
		}
	}
	return uaparser.UserAgent{}
}

// operatingSystem returns the result of the first matching system rule; an empty family: none
// matched.
func (r *rules) operatingSystem(l line) (os uaparser.Os) {
	for i := range r.systems {
		if s := &r.systems[i]; s.could(l) {
			if s.match(l.ua, &os); os.Family != "" {
				return os
			}
		}
	}
	return uaparser.Os{}
}

// needsOf finds texts such that a match of the expression contains one of them.
func needsOf(flags, expr string) ([]string, error) {
	if flags != "" {
		expr = "(?" + flags + ")" + expr
	}
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("rule %q: %w", expr, err)
	}
	needs := required(re)
	if shortest(needs) < 2 { // a single letter is in nearly every string
		return nil, nil
	}
	return needs, nil
}

// required returns lower-case texts such that any match of re contains at least one; nil if
// none can be named.
func required(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			one := required(sub)
			if one == nil {
				return nil
			}
			all = append(all, one...)
		}
		return all
	case syntax.OpConcat: // every part is required: the most telling one suffices
		var best []string
		for i, sub := range re.Sub {
			rest := &syntax.Regexp{Op: syntax.OpConcat, Sub: re.Sub[i:]}
			begins, _ := starts(rest)
			for _, needs := range [][]string{begins, required(sub)} {
				if shortest(needs) > shortest(best) {
					best = needs
				}
			}
		}
		return best
	}
	return nil
}

// starts returns lower-case texts such that any match of re begins with one of them, nil if
// they cannot be listed. whole says that the matches are exactly those texts.
func starts(re *syntax.Regexp) (texts []string, whole bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re), true
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpWordBoundary:
		return []string{""}, true
	case syntax.OpCapture:
		return starts(re.Sub[0])
	case syntax.OpPlus:
		texts, _ = starts(re.Sub[0])
		return texts, false
	case syntax.OpQuest:
		if texts, whole = starts(re.Sub[0]); texts != nil {
			texts = append(texts, "")
		}
		return texts, whole
	case syntax.OpAlternate:
		whole = true
		for _, sub := range re.Sub {
			some, all := starts(sub)
			if some == nil {
				return nil, false
			}
			texts, whole = append(texts, some...), whole && all
		}
		return texts, whole
	case syntax.OpConcat:
		texts = []string{""}
		for _, sub := range re.Sub {
			next, all := starts(sub)
			if next == nil || len(texts)*len(next) > maxStarts {
				return texts, false
			}
			var longer []string
			for _, t := range texts {
				for _, n := range next {
					longer = append(longer, t+n)
				}
			}
			if texts = longer; !all {
				return texts, false
			}
		}
		return texts, true
	}
	return nil, false
}

// literal returns the one text in lower case, nil if it may also be written with letters beyond
// ASCII: regardless of case, K also matches the Kelvin sign, and s the long ſ.
func literal(re *syntax.Regexp) []string {
	text := strings.ToLower(string(re.Rune))
	if re.Flags&syntax.FoldCase != 0 && strings.ContainsAny(text, "ks") {
		return nil
	}
	return []string{text}
}

// maxStarts bounds the texts of one rule; the rule for crawlers has 200.
const maxStarts = 400

// shortest returns the length of the shortest text; 0 for none.
func shortest(texts []string) int {
	n := 0
	for i, s := range texts {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
