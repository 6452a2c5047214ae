package bullmqsource

import (
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill/internal/redisconn"
)

// Scripts run alone on the server: each one runs atomically.
var (
	//go:embed common.lua
	commonLua string
	//go:embed take.lua
	takeLua string
	//go:embed leaving.lua
	leavingLua string
	//go:embed settle.lua
	settleLua string
	//go:embed keep.lua
	keepLua string
	//go:embed check.lua
	checkLua string
	//go:embed again.lua
	againLua string
	//go:embed progress.lua
	progressLua string
	//go:embed wake.lua
	wakeLua string

	takeScript     = rueidis.NewLuaScript(commonLua + takeLua)
	settleScript   = rueidis.NewLuaScript(commonLua + leavingLua + settleLua)
	keepScript     = rueidis.NewLuaScript(commonLua + keepLua)
	checkScript    = rueidis.NewLuaScript(commonLua + checkLua)
	againScript    = rueidis.NewLuaScript(commonLua + againLua)
	progressScript = rueidis.NewLuaScript(commonLua + progressLua)
	wakeScript     = rueidis.NewLuaScript(commonLua + wakeLua)
)

func forRedis(err error, format string, args ...any) error {
	return redisconn.Error(err, format, args...)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
