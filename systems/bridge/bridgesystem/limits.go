package bridgesystem

import "runtime"

// tellWithoutEffect does what has to be done to the process itself, and tells of settings
// that were given and change nothing here.
func (w *wiring) tellWithoutEffect() {
	c := w.own
	tell := func(setting, path string, given bool, why string) {
		if given && w.Config.Given("bridge."+path) {
			w.withoutEffect(setting, why)
		}
	}
	tell("PIPELINE_ZERO_COPY", "pipeline.zero_copy", !c.Pipeline.ZeroCopy, "payloads are always framed as they are: there is no slower way")
	tell("PIPELINE_NUMA_AWARE", "pipeline.numa_aware", c.Pipeline.NUMAAware, "the Go runtime places memory and threads by itself; PIPELINE_CPU_AFFINITY keeps the process to processors of one node")
	tell("PIPELINE_IDLE_POLL_SLEEP", "pipeline.idle_poll_sleep", true, "nothing polls: whoever waits is woken")
	tell("MQTT_ORDER_MATTERS", "mqtt.order_matters", !c.MQTT.OrderMatters, "acknowledgements are always taken in the order in which they come")
	tell("MQTT_TLS_PREFER_SERVER_CIPHERS", "mqtt.tls_prefer_server_ciphers", c.MQTT.TLSPreferServerCiphers, "Go chooses cipher suites by itself")
	tell("MQTT_CLEAN_SESSION", "mqtt.clean_session", !c.MQTT.CleanSession && c.Embedded(), "the embedded broker's sessions end with the process")
	if len(c.Pipeline.CPUAffinity) == 0 {
		return
	}
	if err := pin(c.Pipeline.CPUAffinity); err != nil {
		w.withoutEffect("PIPELINE_CPU_AFFINITY", err.Error()+" ("+runtime.GOOS+")")
		return
	}
	// Logged at the start, when `bridge.pipeline.cpu_affinity` was done.
	w.log.Info("the process keeps to some processors", "cpus", []int(c.Pipeline.CPUAffinity))
}

func (w *wiring) withoutEffect(setting, why string) {
	// Logged at the start, for each setting of the bridge that was given and changes nothing here.
	// To do: take it out; `why` says what happens instead.
	w.log.Warn("a setting without effect", "setting", setting, "why", why)
}
