package kafkaconn

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill"
)

// mechanisms are the values of sasl= in an address.
var mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// Parse reads where the brokers are:
//
//	one:9092,two:9092
//	kafka://one:9092,two:9092
//	kafka+tls://user:password@one:9093,two:9093?sasl=scram-sha-512
//
// The default port is 9092. ?tls also asks for TLS. With a user the mechanism is plain unless
// sasl says otherwise. In user and password, reserved characters are written as %XX. Errors do
// not repeat the address, because it may hold a password.
func Parse(address string, o Options) (*Cluster, error) {
	c := &Cluster{options: o, mechanism: "plain"}
	rest := address
	if scheme, after, ok := strings.Cut(address, "://"); ok {
		switch scheme {
		case "kafka":
		case "kafka+tls", "kafkas":
			c.tls = true
		default:
			return nil, errors.New("address of Kafka: begin with kafka:// or kafka+tls://, or with the first host")
		}
		rest = after
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest = strings.TrimSuffix(rest, "/")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := c.whom(rest[:at]); err != nil {
			return nil, err
		}
		rest = rest[at+1:]
	}
	if err := c.query(query); err != nil {
		return nil, err
	}
	for host := range strings.SplitSeq(rest, ",") {
		broker, err := broker(strings.TrimSpace(host))
		if err != nil {
			return nil, err
		}
		if slices.Contains(c.brokers, broker) {
			return nil, fmt.Errorf("address of Kafka: the broker %s is there twice", broker)
		}
		c.brokers = append(c.brokers, broker)
	}
	return c, nil
}

func (c *Cluster) whom(userinfo string) error {
	user, password, _ := strings.Cut(userinfo, ":")
	user, err := url.PathUnescape(user)
	if err != nil || user == "" {
		return errors.New("address of Kafka: write user:password@ before the hosts, with %XX for characters that mean something there")
	}
	if password, err = url.PathUnescape(password); err != nil {
		return errors.New("address of Kafka: the password has a % that is not followed by two hexadecimal digits; write it as %25")
	}
	if password == "" {
		return errors.New("address of Kafka: the user has no password")
	}
	c.user, c.password = user, tidemill.NewSecret(password)
	return nil
}

func (c *Cluster) query(raw string) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return errors.New("address of Kafka: what follows the ? is not name=value&name=value")
	}
	for name, vs := range values {
		switch name {
		case "tls":
			on := vs[0] == ""
			if !on {
				if on, err = strconv.ParseBool(vs[0]); err != nil {
					return errors.New("address of Kafka: tls is true or false")
				}
			}
			c.tls = c.tls || on
		case "sasl":
			c.mechanism = strings.ToLower(vs[0])
			if !slices.Contains(mechanisms, c.mechanism) {
				return fmt.Errorf("address of Kafka: sasl is one of %q", mechanisms)
			}
			if c.user == "" {
				return errors.New("address of Kafka: sasl needs user:password@ before the hosts")
			}
		default:
			return errors.New("address of Kafka: of settings behind the ? there are tls and sasl alone") // the name may be the end of a password
		}
	}
	return nil
}

// broker is host:port of one broker.
func broker(s string) (string, error) {
	host, port := s, "9092"
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	} else if strings.Contains(strings.Trim(s, "[]"), ":") && !strings.HasPrefix(s, "[") {
		return "", errors.New("address of Kafka: a broker is host:port, and an IPv6 address has [] around it")
	} else {
		host = strings.Trim(s, "[]")
	}
	n, err := strconv.Atoi(port)
	if host == "" || err != nil || n < 1 || n > 65535 || strings.ContainsAny(host, " /@") {
		return "", errors.New("address of Kafka: a broker is host:port, and several have commas between them")
	}
	return net.JoinHostPort(host, port), nil
}
