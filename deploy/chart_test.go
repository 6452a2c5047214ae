package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/systems"
)

// secret is the one value that every release needs.
var secret = []string{"--set", "secrets.existingSecret=tidemill"}

// with are the arguments of helm that set values, beside the secret.
func with(values ...string) []string {
	args := secret
	for _, v := range values {
		args = append(args[:len(args):len(args)], "--set", v)
	}
	return args
}

func TestTheChartIsRenderedWithWhatItOffers(t *testing.T) {
	servers := []string{"mode=servers", "servers.clickhouse.url=http://clickhouse:8123"}
	for name, c := range map[string]struct {
		args []string
		has  []string // kinds, and parts of what is rendered
	}{
		"embedded":      {with(), []string{"kind: StatefulSet", "whenDeleted: Retain"}},
		"configuration": {with("config.existingSecret=c", "secrets.env.API_KEY_DV360=api-key-dv360"), []string{`secretName: "c"`, "name: API_KEY_DV360"}},
		"everything": {with("config.existingSecret=c", "ingress.enabled=true", "ingress.hosts={events.example.com}", "networkPolicy.enabled=true",
			"serviceMonitor.enabled=true", "prometheusRule.enabled=true"), []string{"kind: Ingress", "kind: NetworkPolicy", "kind: ServiceMonitor", "name: tidemill-bridge", "TidemillBridgeUnanswered"}},
		"servers": {with(append(servers, "podMonitor.enabled=true")...), []string{"kind: Deployment", "kind: PodDisruptionBudget", "kind: PodMonitor"}},
		"redis":   {with(append(servers, "keda.enabled=true", "keda.redisStreams.address=redis:6379")...), []string{"kind: ScaledObject", "lagCount", "kind: TriggerAuthentication"}},
		"kafka": {with(append(servers, "servers.kafka.brokers=kafka:9092", "keda.enabled=true", "keda.trigger=kafka", "keda.kafka.topic=events",
			"keda.kafka.consumerGroup=tidemill")...), []string{"kind: ScaledObject", "lagThreshold"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := helm(t, "lint", append(c.args, "--strict")...); err != nil {
				t.Error(err)
			}
			out, err := helm(t, "template", c.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range c.has {
				if !strings.Contains(string(out), part) {
					t.Errorf("it has no %q", part)
				}
			}
		})
	}
}

// Values that cannot work are refused before anything is installed, and the error says why.
func TestTheChartRefusesWhatCannotWork(t *testing.T) {
	for why, args := range map[string][]string{
		"secrets.existingSecret is needed": nil,
		"need servers.clickhouse.url":      with("mode=servers"),
		"need PostgreSQL":                  with("mode=servers", "systems={crm}", "servers.postgres.enabled=false"),
		"both set":                         with("config.text=a: b", "config.existingSecret=c"),
		"cannot be scaled":                 with("keda.enabled=true"),
		"/systems/0":                       with("systems={nonsense}"),
		"replicas":                         with("replicas=2"),
		"/terminationGracePeriodSeconds":   with("terminationGracePeriodSeconds=30"),
		"TIDEMILL_TOKEN":                   with("settings.TIDEMILL_TOKEN=plain"),
	} {
		if out, err := helm(t, "template", args...); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want an error that has %q; rendered are %d bytes", args, err, why, len(out))
		}
	}
}

// Each value is in the schema, each object of which takes nothing else.
func TestTheSchemaNamesEveryValue(t *testing.T) {
	text, err := os.ReadFile("helm/tidemill/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	compareSchema(t, "", read[map[string]any](t, "helm/tidemill/values.yaml"), schema)
}

func compareSchema(t *testing.T, path string, values, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		return // an object of Kubernetes, or names of the user's
	}
	if schema["additionalProperties"] != false {
		t.Errorf("the schema takes anything as a part of %q", path)
	}
	for name, value := range values {
		inner, ok := properties[name].(map[string]any)
		if !ok {
			t.Errorf("values.yaml has %s.%s, the schema does not", path, name)
			continue
		}
		if object, ok := value.(map[string]any); ok {
			compareSchema(t, path+"."+name, object, inner)
		}
	}
	for name := range properties {
		if _, ok := values[name]; !ok && path+name != "global" {
			t.Errorf("the schema has %s.%s, values.yaml does not", path, name)
		}
	}
}

// Every system has its values and its configuration, and is a service of Compose.
func TestEverySystemHasItsFiles(t *testing.T) {
	for _, name := range systems.All().Names() {
		for _, path := range []string{"helm/tidemill/values-" + name + ".yaml", "config/" + name + ".yaml"} {
			if _, err := os.Stat(filepath.FromSlash(path)); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is true of every pod that the chart makes.
func TestPodsAreConfined(t *testing.T) {
	for _, name := range systems.All().Names() {
		out, err := helm(t, "template", "-f", "helm/tidemill/values-"+name+".yaml", "--set-file", "config.text=config/"+name+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "type: RuntimeDefault", "- ALL",
			"automountServiceAccountToken: false", "startupProbe:", "livenessProbe:", "readinessProbe:", "path: /readyz", "terminationGracePeriodSeconds: 75", "limits:", "requests:",
			"kind: PodDisruptionBudget", "maxUnavailable: 0", "checksum/config: "} {
			if !strings.Contains(string(out), part) {
				t.Errorf("the pods of %s are without %q", name, part)
			}
		}
	}
}
