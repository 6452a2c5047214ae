package bridgecli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// theirs are the settings by which a receiver finds the broker and the topics of the bridge
// that runs at a server. Passwords and certificates are not told: they are this side's own.
func theirs(ctx context.Context, a *command.Client) (map[string]string, error) {
	status, err := api.GetStatus.Call(ctx, &a.Client, &operation.None{})
	if err != nil {
		return nil, a.Explain(err)
	}
	file, err := api.GetConfig.Body(ctx, &a.Client, &operation.None{})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var its struct {
		Bridge struct {
			MQTT struct {
				Brokers        string
				PublishTopic   string `yaml:"publish_topic"`
				SubscribeTopic string `yaml:"subscribe_topic"`
				CustomPrefix   string `yaml:"custom_prefix"`
				QoS            int    `yaml:"qos"`
			}
		}
	}
	if err := yaml.NewDecoder(file).Decode(&its); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", a.Base, err)
	}
	m := &its.Bridge.MQTT
	flags := map[string]string{"bridge.mqtt.publish_topic": m.PublishTopic, "bridge.mqtt.subscribe_topic": m.SubscribeTopic,
		"bridge.mqtt.custom_prefix": m.CustomPrefix, "bridge.mqtt.qos": strconv.Itoa(m.QoS)}
	for _, use := range status.Uses {
		broker, is := strings.CutPrefix(use, "broker: ")
		embedded, rest, _ := strings.Cut(broker, ", ")
		switch {
		case !is:
		case embedded == "embedded MQTT":
			address, _, _ := strings.Cut(rest, ", ")
			flags["bridge.broker.listen"], err = reached(a.Base, strings.TrimPrefix(address, "tcp://"))
			return flags, err
		default:
			flags["bridge.mqtt.brokers"] = m.Brokers
			return flags, nil
		}
	}
	return nil, fmt.Errorf("no bridge runs at %s", a.Base)
}

// reached is the address of an embedded broker as it is reached from here.
func reached(server, listens string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return "", err
	}
	ip := net.ParseIP(host)
	switch {
	case config.Loopback(host) && !config.Loopback(u.Hostname()):
		return "", fmt.Errorf("the broker of %s listens on %s, for programs on its own machine: set bridge.broker.listen there", server, listens)
	case host == "" || ip != nil && ip.IsUnspecified():
		return net.JoinHostPort(u.Hostname(), port), nil
	}
	return listens, nil
}
