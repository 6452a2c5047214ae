package bridge

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/exec"

	"github.com/tidemill/tidemill/bench/process"
)

// place is where a bridge reads and publishes.
type place struct {
	redis, stream string
	broker        *broker
	topic, acks   string // acks is empty if the broker's PUBACK acknowledges
}

// contender is a program that bridges a stream to a broker.
type contender struct {
	deletes bool // entries that are done leave the stream
	start   func(ctx context.Context, at place) (*process.Program, error)
}

// tidemill is the product in a folder, with its defaults except for the given settings.
func tidemill(bin, dir string, settings ...string) contender {
	return contender{deletes: true, start: func(ctx context.Context, at place) (*process.Program, error) {
		var ports [3]string
		for i := range ports {
			var err error
			if ports[i], err = process.FreePort(); err != nil {
				return nil, err
			}
		}
		listen := net.JoinHostPort("127.0.0.1", ports[0])
		cmd := exec.CommandContext(ctx, bin, "run", "bridge", "--no-auth", "--listen", listen)
		cmd.Dir = dir // a folder without a configuration file
		cmd.Env = append(os.Environ(), "LOG_LEVEL=warn", "HEALTH_PORT="+ports[1], "METRICS_PORT="+ports[2],
			"REDIS_ADDRESSES="+at.redis, "REDIS_STREAM="+at.stream, "REDIS_CONSUMER_GROUP="+group,
			"MQTT_BROKERS="+at.broker.url(), "MQTT_QOS=1", "MQTT_USE_USER_PREFIX=false",
			"MQTT_PUBLISH_TOPIC="+at.topic, "MQTT_SUBSCRIBE_TOPIC="+cmp.Or(at.acks, "none"))
		cmd.Env = append(cmd.Env, settings...)
		p, err := process.Start(cmd)
		if err == nil {
			p.URL = "http://" + listen
		}
		return p, err
	}}
}

// bento is Bento as bench/peers/bento configures it.
func bento(bin string) contender {
	return contender{start: func(ctx context.Context, at place) (*process.Program, error) {
		cmd := exec.CommandContext(ctx, bin, "-c", "bench/peers/bento/bridge.yaml")
		cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+at.redis, "STREAM="+at.stream, "GROUP="+group, "MQTT_URL="+at.broker.url(), "TOPIC="+at.topic)
		return process.Start(cmd)
	}}
}
