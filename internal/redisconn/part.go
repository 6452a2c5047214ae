package redisconn

// Part is what a role does in a script of another one, so that both happen in one stroke:
// Lua that sets the functions which that script wants, the keys that it uses, KEYS[2] and
// those after it, and what it is told at each run, beside what concerns single callers.
type Part struct {
	Lua  string
	Keys []string
	Args func() []string
}
