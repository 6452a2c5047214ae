package kafkaconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/internal/testenv"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"one":                    "kafka://one:9092",
		"one:1,two:2":            "kafka://one:1,two:2",
		"kafka://one:1, two/":    "kafka://one:1,two:9092",
		"kafka+tls://one":        "kafka+tls://one:9092",
		"one?tls":                "kafka+tls://one:9092",
		"one?tls=false":          "kafka://one:9092",
		"kafka://[::1]:1,[fe::]": "kafka://[::1]:1,[fe::]:9092",
		"kafka://u:canary@one,two?sasl=scram-sha-512": "kafka://one:9092,two:9092",
		"kafka+tls://u:c%40na%3Ary@one?sasl=PLAIN":    "kafka+tls://one:9092",
	} {
		c, err := Parse(address, Options{})
		if err != nil || c.String() != want {
			t.Errorf("%s: %v, %v; want %s", address, c, err, want)
			continue
		}
		client, err := c.Client()
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		client.Close()
	}
	c, err := Parse("kafka://u%3A:c%40na%3Ary@one", Options{})
	if err != nil || c.user != "u:" || c.password.Reveal() != "c@na:ry" {
		t.Errorf("user and password are %+v, %v", c, err)
	}
}

func TestNonsenseIsRefusedWithoutTheSecret(t *testing.T) {
	for _, address := range []string{
		"", ",", "one,", "one,one", "redis://canary@one", "kafka://u:canary@", "kafka://u:@one", "kafka://:canary@one",
		"kafka://u:canary%zz@one", "kafka://u:canary@one:port", "kafka://u:canary@one:0", "kafka://u:canary@one?sasl=magic",
		"kafka://u:canary@one?canary=1;2", "kafka://u:x?canary@one", "one?sasl=plain", "kafka://u:canary@one?tls=perhaps", "fe80::1", "a b",
	} {
		_, err := Parse(address, Options{})
		if err == nil {
			t.Errorf("%q was taken", address)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: the error shows the password: %v", address, err)
		}
	}
}

func TestAClusterDoesNotPrintItsPassword(t *testing.T) {
	c, err := Parse("kafka://user:canary@one", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "cluster", c)
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s", c, c, c), log.String()} {
		if strings.Contains(s, "canary") {
			t.Errorf("it shows the password: %s", s)
		}
	}
}

func TestKinds(t *testing.T) {
	for err, want := range map[error]tidemill.Kind{
		nil:                                   tidemill.NoKind,
		context.Canceled:                      tidemill.NoKind,
		context.DeadlineExceeded:              tidemill.Timeout,
		os.ErrDeadlineExceeded:                tidemill.Timeout,
		kerr.SaslAuthenticationFailed:         tidemill.Credentials,
		kerr.MessageTooLarge:                  tidemill.Validation,
		kerr.NotLeaderForPartition:            tidemill.Transient,
		kerr.ThrottlingQuotaExceeded:          tidemill.RateLimit,
		kerr.RequestTimedOut:                  tidemill.Timeout,
		kgo.ErrRecordTimeout:                  tidemill.Timeout,
		errors.New("whatever"):                tidemill.Transient,
		tidemill.Fail(tidemill.Business, "x"): tidemill.Business,
	} {
		if got := Kind(err); got != want {
			t.Errorf("%v is of kind %v, want %v", err, got, want)
		}
		if err == nil {
			continue
		}
		wrapped := Error(fmt.Errorf("inside: %w", err), "read %s", "this")
		if got := Kind(wrapped); got != want || !errors.Is(wrapped, err) || !strings.Contains(wrapped.Error(), "read this: inside") {
			t.Errorf("%v is of kind %v, want %v", wrapped, got, want)
		}
	}
	if Error(nil, "x") != nil {
		t.Error("nil became an error")
	}
}

func TestInspect(t *testing.T) {
	brokers := testenv.Kafka(t)
	c, err := Parse(strings.Join(brokers, ","), Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	topic, admin := testenv.Name("t-"), kadm.NewClient(client)
	hour, compact := "3600000", "compact"
	if _, err := admin.CreateTopic(t.Context(), 4, 1, map[string]*string{"retention.ms": &hour, "cleanup.policy": &compact}, topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c, err := c.Client(); err == nil {
			_, _ = kadm.NewClient(c).DeleteTopic(context.Background(), topic)
			c.Close()
		}
	})
	for { // until the topic is known everywhere
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		if err == nil && ends.Error() == nil && len(ends[topic]) == 4 {
			break
		}
	}
	found := map[string]preflight.Finding{}
	for _, f := range c.Inspect(t.Context(), client, topic) {
		t.Logf("%-4s %s: %s. %s", f.Verdict, f.Check, f.Detail, f.Advice)
		found[strings.Replace(f.Check, topic, "T", 1)] = f
		if f.Verdict != preflight.OK && f.Advice == "" {
			t.Errorf("%s is %s, but nothing says what to do", f.Check, f.Verdict)
		}
	}
	for check, want := range map[string]string{
		"kafka: brokers":                                preflight.Warn,
		"kafka: topic T":                                preflight.OK,
		"kafka: topic T replicas":                       preflight.Fail,
		"kafka: topic T min.insync.replicas":            preflight.Warn,
		"kafka: topic T unclean.leader.election.enable": preflight.OK,
		"kafka: topic T cleanup.policy":                 preflight.Fail,
		"kafka: topic T retention.ms":                   preflight.Warn,
		"kafka: topic T retention.bytes":                preflight.OK,
		"kafka: offset.metadata.max.bytes":              preflight.OK,
		"kafka: offsets.retention.minutes":              preflight.OK,
	} {
		if got := found[check].Verdict; got != want {
			t.Errorf("%s is %q, want %q", check, got, want)
		}
	}
	if f := c.Inspect(t.Context(), client, testenv.Name("nowhere-")); !failed(f, "does not exist", "UNKNOWN_TOPIC") {
		t.Errorf("a topic that is not there: %+v", f)
	}
}

func TestInspectOfBrokersThatAreAway(t *testing.T) {
	c, err := Parse("127.0.0.1:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if f := c.Inspect(ctx, client, "t"); !failed(f, "") {
		t.Errorf("brokers that are away: %+v", f)
	}
}

// failed reports whether one finding fails with one of the words.
func failed(fs []preflight.Finding, words ...string) bool {
	for _, f := range fs {
		for _, w := range words {
			if f.Verdict == preflight.Fail && strings.Contains(f.Detail, w) {
				return true
			}
		}
	}
	return false
}
