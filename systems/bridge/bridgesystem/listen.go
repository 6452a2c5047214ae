package bridgesystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/mqttconn"
	"github.com/tidemill/tidemill/systems/bridge"
	"github.com/tidemill/tidemill/systems/bridge/bridgecli"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

// listen is a receiver of the bridge: see bridgecli.Listen.
func listen(ctx context.Context, c *config.Loaded, l bridgecli.Listening, each func(topic string, payload []byte) error) error {
	own := bridgeconfig.Of(c)
	brokers, o, prefix, err := mqttOf(own, l.Log)
	if err != nil {
		return err
	}
	o.Session = 0
	reader, err := listener(ctx, brokers, o, "reader")
	if err != nil {
		return err
	}
	defer leave(ctx, reader)
	acker := reader
	if l.Ack {
		if own.MQTT.AckTopic() == "" {
			return errors.New("there is no topic of acks (MQTT_SUBSCRIBE_TOPIC): the broker's word ends an entry")
		}
		if acker, err = listener(ctx, brokers, o, "acker"); err != nil { // brokers differ in how well they serve both by one client
			return err
		}
		defer leave(ctx, acker)
	}
	qos := byte(own.MQTT.QoS)
	topics := l.Topics
	if len(topics) == 0 {
		topics = []string{filterOf(bridge.JoinTopic(prefix, own.MQTT.PublishTopic))}
	}
	var subs []mqttconn.Subscription
	for _, t := range topics {
		subs = append(subs, mqttconn.Subscription{Filter: t, QoS: qos})
	}
	if err := reader.Subscribe(ctx, subs...); err != nil {
		return err
	}
	if l.Ready != nil {
		l.Ready(topics)
	}
	acks := bridge.JoinTopic(prefix, own.MQTT.AckTopic())
	into := make([]mqttconn.Delivery, 256)
	for {
		n, err := reader.Receive(ctx, into)
		if err != nil {
			return err
		}
		for k := range into[:n] {
			d := &into[k]
			enough := each(string(d.Topic), d.Payload)
			if enough != nil && !errors.Is(enough, bridgecli.ErrEnough) {
				return enough
			}
			if l.Ack {
				id := gjson.GetBytes(d.Payload, "redis.payload.id")
				m := mqttconn.Message{Topic: acks, QoS: qos, Payload: []byte(`{"id":` + cmp.Or(id.Raw, `""`) + `,"ack":true}`)}
				if err := acker.Publish(ctx, []mqttconn.Message{m}); err != nil {
					return err
				}
			}
			reader.Ack(d.Receipt)
			if enough != nil {
				return nil
			}
		}
	}
}

// listener is a client of its own name.
func listener(ctx context.Context, brokers []string, o mqttconn.Options, role string) (*mqttconn.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o.ClientID = fmt.Sprintf("%s-%s-%d", o.ClientID, role, os.Getpid())
	client, err := mqttconn.Open(ctx, brokers, o)
	if err != nil {
		return nil, fmt.Errorf("%w; does the bridge run, or the broker that MQTT_BROKERS names?", err)
	}
	return client, nil
}

func leave(ctx context.Context, c *mqttconn.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = c.Close(ctx) // what was not acknowledged comes again
}

// filterOf makes a filter of a topic with fields: each stands for one level.
func filterOf(topic string) string {
	levels := strings.Split(topic, "/")
	for i, l := range levels {
		if strings.Contains(l, "{") {
			levels[i] = "+"
		}
	}
	return strings.Join(levels, "/")
}
