package redisconn

// Part is a role's share in another role's script, so that both happen atomically: Lua that
// sets the functions which that script calls, the keys that it uses, KEYS[2] and those after
// it, and its arguments at each run, in addition to those of single callers.
type Part struct {
	Lua  string
	Keys []string
	Args func() []string
}
