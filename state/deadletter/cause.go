package deadletter

import "strings"

// MaxCommon is how many bytes a group keeps of its cause.
const MaxCommon = 200

// CommonCause is a cause without what differs from message to message: digits, and words of them
// that are names of things, as UUIDs and hashes are, are #. The end of a line is \n.
func CommonCause(cause string) string {
	cause = strings.ReplaceAll(strings.ToValidUTF8(cause, "\uFFFD"), "\r\n", "\n") // forms write ends of lines so
	var b strings.Builder
	for i := 0; i < len(cause) && b.Len() < MaxCommon; {
		end := i
		for end < len(cause) && inName(cause[end]) {
			end++
		}
		if end == i {
			b.WriteByte(cause[i])
			i++
			continue
		}
		writeCommon(&b, cause[i:end])
		i = end
	}
	s := b.String()
	return strings.ToValidUTF8(s[:min(len(s), MaxCommon)], "")
}

// inName says whether a byte may be of the name of a thing.
func inName(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_'
}

// nameLeast is how long a word of hexadecimal digits is that is taken for a name.
const nameLeast = 8

// writeCommon writes a word without its numbers.
func writeCommon(b *strings.Builder, word string) {
	digits := strings.ContainsAny(word, "0123456789")
	if digits && len(word) >= nameLeast && strings.Trim(word, "0123456789abcdefABCDEF-") == "" {
		b.WriteByte('#')
		return
	}
	number := false
	for i := range len(word) {
		digit := '0' <= word[i] && word[i] <= '9'
		switch {
		case !digit:
			b.WriteByte(word[i])
		case !number:
			b.WriteByte('#')
		}
		number = digit
	}
}
