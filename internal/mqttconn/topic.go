package mqttconn

import (
	"strings"
	"unicode/utf8"

	"github.com/tidemill/tidemill"
)

// CheckTopic checks whether a message can be published to a topic: it has to be UTF-8 of 1 to
// 65,535 bytes without +, # and NUL, and not a topic of the broker ($SYS, $share). The error is
// a Validation.
func CheckTopic(topic string) error {
	switch {
	case topic == "":
		return tidemill.Fail(tidemill.Validation, "the topic is empty")
	case len(topic) > 65_535:
		return tidemill.Fail(tidemill.Validation, "the topic has %d bytes: at most 65,535 are allowed", len(topic))
	case strings.ContainsAny(topic, "+#\x00"):
		return tidemill.Fail(tidemill.Validation, "topic %.100q: +, # and NUL are not allowed in what is published", topic)
	case topic[0] == '$' && (topic == "$SYS" || strings.HasPrefix(topic, "$SYS/") || strings.HasPrefix(topic, "$share/")):
		return tidemill.Fail(tidemill.Validation, "topic %.100q: it is the broker's own, which drops what others publish to it", topic)
	case !utf8.ValidString(topic):
		return tidemill.Fail(tidemill.Validation, "topic %.100q is not UTF-8", topic)
	}
	return nil
}

// CheckFilter checks whether a topic filter can be subscribed to: + and # stand for whole
// levels, # for the last.
func CheckFilter(filter string) error {
	if filter == "" || len(filter) > 65_535 || !utf8.ValidString(filter) || strings.ContainsRune(filter, 0) {
		return tidemill.Fail(tidemill.Validation, "topic filter %.100q: want UTF-8 of 1 to 65,535 bytes without NUL", filter)
	}
	levels := strings.Split(filter, "/")
	if levels[0] == "$share" && (len(levels) < 3 || levels[1] == "" || strings.ContainsAny(levels[1], "+#") || len(levels) == 3 && levels[2] == "") {
		return tidemill.Fail(tidemill.Validation, "topic filter %.100q: a shared one is $share/<group>/<filter>", filter)
	}
	for i, l := range levels {
		if strings.ContainsAny(l, "+#") && len(l) > 1 || l == "#" && i < len(levels)-1 {
			return tidemill.Fail(tidemill.Validation, "topic filter %.100q: + stands for a whole level, # for the last ones", filter)
		}
	}
	return nil
}
