package config

// Given says whether a setting came from the file, the environment or a flag.
func (c *Loaded) Given(path string) bool { return c.From[path] != "" && c.From[path] != fromDefault }

// None is how the environment says that there is no topic of acks: an empty variable is one
// that was not set.
const None = "none"

// AckTopic is SubscribeTopic, or empty where there is none.
func (m *BridgeMQTT) AckTopic() string {
	if m.SubscribeTopic == None {
		return ""
	}
	return m.SubscribeTopic
}
