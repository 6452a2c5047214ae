// Command bento is Bento with the parts that the bridge is compared with: a Redis stream read
// as a consumer group, published to MQTT. It is a separate module, so that the product does not
// depend on it; bench/bridge builds it.
package main

import (
	"context"

	"github.com/warpstreamlabs/bento/public/service"

	_ "github.com/warpstreamlabs/bento/public/components/io"
	_ "github.com/warpstreamlabs/bento/public/components/mqtt"
	_ "github.com/warpstreamlabs/bento/public/components/pure"
	_ "github.com/warpstreamlabs/bento/public/components/redis"
)

func main() { service.RunCLI(context.Background()) }
