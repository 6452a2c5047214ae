package bridge

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tidemill/tidemill"
)

// A topic is a template: text, and fields of an entry between braces.
type topic struct {
	text  string   // if it has no fields
	parts []string // text, field, text, field, … text
}

// JoinTopic puts a prefix before a topic. A leading slash is dropped.
func JoinTopic(prefix, topic string) string {
	topic = strings.TrimPrefix(topic, "/")
	if prefix = strings.Trim(prefix, "/"); prefix == "" {
		return topic
	}
	return prefix + "/" + topic
}

// CheckTopic refuses a template that cannot be the topic of a message, fields included.
func CheckTopic(template string) error {
	_, err := parseTopic("", template)
	return err
}

func parseTopic(prefix, template string) (*topic, error) {
	t := &topic{}
	rest := JoinTopic(prefix, template)
	if rest == "" {
		return nil, fmt.Errorf("topic %q: it is empty", template)
	}
	for {
		text, more, found := strings.Cut(rest, "{")
		if strings.ContainsAny(text, "+#}\x00") {
			return nil, fmt.Errorf("topic %q: +, #, NUL and a } alone cannot be in the topic of a message", template)
		}
		t.parts = append(t.parts, text)
		if !found {
			break
		}
		field, behind, closed := strings.Cut(more, "}")
		if !closed || field == "" || strings.Contains(field, "{") {
			return nil, fmt.Errorf("topic %q: fields stand between braces, as in devices/{device}", template)
		}
		t.parts = append(t.parts, field)
		rest = behind
	}
	if len(t.parts) == 1 {
		t.text = t.parts[0]
	}
	return t, nil
}

// of is the topic of an entry. A field is one of the entry's, or else of the JSON object in its
// payload: text or a number. A value cannot add levels.
func (t *topic) of(m *tidemill.Message) (string, error) {
	if t.text != "" {
		return t.text, nil
	}
	var b strings.Builder
	for i, part := range t.parts {
		if i%2 == 0 {
			b.WriteString(part)
			continue
		}
		value, ok := fieldOf(m, part)
		if !ok || value == "" {
			return "", tidemill.Fail(tidemill.Validation, "the topic needs the field %q, which the entry does not have", part)
		}
		if len(value) > maxLevel || strings.ContainsAny(value, "/+#\x00") {
			return "", tidemill.Fail(tidemill.Validation, "the field %q is %.100q: in a topic it has at most %d bytes and no /, +, # or NUL", part, value, maxLevel)
		}
		b.WriteString(value)
	}
	return b.String(), nil
}

// maxLevel is how long a topic level made of data may be, in bytes.
const maxLevel = 1024

func fieldOf(m *tidemill.Message, name string) (string, bool) {
	if v := m.Get(name); v != nil {
		return string(v), true
	}
	data := m.Payload
	if v := m.Get(payloadField); v != nil {
		data = v
	}
	if !valid(data) {
		return "", false
	}
	r := gjson.GetBytes(data, gjson.Escape(name))
	switch r.Type {
	case gjson.String:
		return r.Str, true
	case gjson.Number:
		return r.Raw, true
	}
	return "", false
}
