package mqttconn

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/tidemill/tidemill"
)

// Reason codes of MQTT 5 that are told apart.
const (
	codeVersion        = 0x84
	codeIDInUse        = 0x91
	codeIDNotFound     = 0x92
	codePacketTooLarge = 0x95
	firstError         = 0x80 // this and all above are refusals
)

type meaning struct {
	kind tidemill.Kind
	text string
}

// reasons are those of refusals. Refused clients are Credentials; for refused messages see
// refusedMessage.
var reasons = map[byte]meaning{
	0x80:               {tidemill.Transient, "unspecified error"},
	0x81:               {tidemill.Internal, "malformed packet"},
	0x82:               {tidemill.Internal, "protocol error"},
	0x83:               {tidemill.Transient, "implementation specific error"},
	codeVersion:        {tidemill.Credentials, "it does not speak this version of MQTT: set another one"},
	0x85:               {tidemill.Credentials, "it does not take this client id: set another one"},
	0x86:               {tidemill.Credentials, "user or password is wrong"},
	0x87:               {tidemill.Credentials, "not authorized"},
	0x88:               {tidemill.Transient, "unavailable"},
	0x89:               {tidemill.Transient, "busy"},
	0x8A:               {tidemill.Credentials, "banned"},
	0x8B:               {tidemill.Transient, "it is shutting down"},
	0x8C:               {tidemill.Credentials, "authentication method is not supported"},
	0x8D:               {tidemill.Transient, "it missed our signs of life"},
	0x8E:               {tidemill.Transient, "another connection took this client id: each client needs one of its own"},
	0x8F:               {tidemill.Validation, "topic filter is not valid"},
	0x90:               {tidemill.Validation, "topic is not valid here"},
	codeIDInUse:        {tidemill.Transient, "packet id is in use"},
	codeIDNotFound:     {tidemill.Transient, "packet id is not known"},
	0x93:               {tidemill.Internal, "more in flight than it takes"},
	0x94:               {tidemill.Internal, "topic alias is not valid"},
	codePacketTooLarge: {tidemill.Validation, "packet is too large"},
	0x96:               {tidemill.RateLimit, "too many messages a second"},
	0x97:               {tidemill.RateLimit, "quota exceeded"},
	0x98:               {tidemill.Transient, "ended by an administrator"},
	0x99:               {tidemill.Validation, "payload is not of its declared format"},
	0x9A:               {tidemill.Credentials, "it keeps no retained messages"},
	0x9B:               {tidemill.Credentials, "it does not take this QoS"},
	0x9C:               {tidemill.Transient, "it asks to use another server"},
	0x9D:               {tidemill.Transient, "it moved: set its new address"},
	0x9E:               {tidemill.Credentials, "it has no shared subscriptions"},
	0x9F:               {tidemill.RateLimit, "too many connections a second"},
	0xA0:               {tidemill.Transient, "connected for longer than it allows"},
	0xA1:               {tidemill.Internal, "it has no subscription identifiers"},
	0xA2:               {tidemill.Credentials, "it has no wildcard subscriptions"},
}

// codes3 translates the return codes of MQTT 3.1.1's CONNACK.
var codes3 = map[byte]byte{1: codeVersion, 2: 0x85, 3: 0x88, 4: 0x86, 5: 0x87}

// refusal is the error of a reason code; text is the broker's explanation, if any.
func refusal(what string, code byte, text string) error {
	m, ok := reasons[code]
	if !ok {
		m = meaning{tidemill.Transient, "a reason that is not known"}
	}
	if text != "" {
		text = ", in its words " + fmt.Sprintf("%.200q", text)
	}
	return &tidemill.Error{Kind: m.kind, Err: fmt.Errorf("the MQTT broker refused %s: %s (0x%02X)%s", what, m.text, code, text)}
}

// refusedMessage is the error of a message that the broker refused. The broker is up, so what
// would be Transient for a connection is Partner for a message: repeating it may help, and is a
// failed try.
func refusedMessage(code byte, text string) error {
	err := refusal("a message", code, text)
	if e, ok := errors.AsType[*tidemill.Error](err); ok && e.Kind == tidemill.Transient {
		e.Kind = tidemill.Partner
	}
	return err
}

// reasonString is the broker's explanation in a refused PUBACK or PUBREC of MQTT 5.
func reasonString(body []byte) string {
	if len(body) < 5 {
		return ""
	}
	p := packets.Packet{ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Puback, Remaining: len(body)}}
	if err := p.PubackDecode(bytes.Clone(body)); err != nil {
		return ""
	}
	return p.Properties.ReasonString
}

var (
	errClosed = &tidemill.Error{Kind: tidemill.Transient, Err: errors.New("the MQTT client is closed")}
	errLost   = errors.New("the connection broke before the MQTT broker acknowledged it")
)

// lost is the error of messages in flight when the connection broke.
func lost(why error) error {
	return tidemill.Fail(tidemill.Unknown, "%w: %w", errLost, why)
}

// away is the error of messages that were not sent for lack of a connection.
func away(why error) error {
	k := tidemill.Transient
	if why == nil {
		why = errors.New("not connected yet")
	} else if kind := tidemill.KindOf(why); kind == tidemill.Credentials || kind == tidemill.RateLimit {
		k = kind
	}
	return tidemill.Fail(k, "no connection to the MQTT broker: %w", why)
}
