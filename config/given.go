package config

// Given says whether a setting came from the file, the environment or a flag.
func (c *Loaded) Given(path string) bool { return c.From[path] != "" && c.From[path] != fromDefault }
