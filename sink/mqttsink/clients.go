package mqttsink

import (
	"context"

	"github.com/tidemill/tidemill/internal/mqttconn"
)

// Client is a connection to a broker that reconnects whenever it breaks; ClientOptions tune
// it: see Connect.
type (
	Client        = mqttconn.Client
	ClientOptions = mqttconn.Options
	Subscription  = mqttconn.Subscription
	Delivery      = mqttconn.Delivery

	receipt = mqttconn.Receipt
)

// Connect opens n clients, for programs that embed a sink. Brokers are addresses like
// tcp://localhost:1883 or tls://broker:8883, tried in turn. Where n is above 1, the client
// ids end in -1 to -n. Close each when it is no longer needed.
func Connect(ctx context.Context, n int, brokers []string, o ClientOptions) ([]*Client, error) {
	return mqttconn.OpenSeveral(ctx, n, brokers, o)
}
