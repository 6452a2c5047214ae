package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/internal/testenv"
)

// deployed is what a process of ours is given: its environment, and the file of its configuration.
type deployed struct {
	env  map[string]string
	file string // empty: none
}

// password is that of every server in these tests, and token that of the API.
const (
	password = "secret"
	token    = "a-token-of-the-API"
)

// tool is the path of a program that reads what is deployed: the installed one, or with real
// servers the one that scripts/services builds.
func tool(t *testing.T, name string) string {
	t.Helper()
	if testenv.Enabled(t) {
		return testenv.Tool(t, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed; make servers builds it", name)
	}
	return path
}

// said runs a program in a folder and returns what it says on its output.
func said(t *testing.T, folder, path string, args ...string) ([]byte, error) {
	t.Helper()
	var errs strings.Builder
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stderr = folder, &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(path), strings.Join(args, " "), err, out, errs.String())
	}
	return out, err
}

// variable of a Compose file: ${NAME}, ${NAME:-default}, ${NAME:?why}.
var variable = regexp.MustCompile(`\$\{(\w+)(?::([-?])([^}]*))?\}`)

// service is one of compose.yaml.
type service struct {
	Profiles    []string
	Environment map[string]any
	DependsOn   map[string]any `json:"depends_on"`
	Volumes     []struct{ Type, Source, Target string }

	ReadOnly bool     `json:"read_only"`
	CapDrop  []string `json:"cap_drop"`
	Deploy   struct {
		Resources struct{ Limits struct{ Memory string } }
	}
}

// services are those of compose.yaml, as the reader of Compose's own specification understands and
// checks them, with these variables; all that have to be set are the password or the token.
func services(t *testing.T, vars map[string]string) map[string]service {
	t.Helper()
	text, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := variable.ReplaceAllStringFunc(string(text), func(v string) string {
		m := variable.FindStringSubmatch(v)
		switch value, ok := vars[m[1]]; {
		case ok:
			return value
		case m[1] == "TIDEMILL_TOKEN":
			return token
		case m[2] == "?":
			return password
		}
		return m[3]
	})
	folder := t.TempDir() // with the neighbours that the file names
	for _, name := range []string{"compose", "config", "prometheus", "grafana"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
	}
	folder = filepath.Join(folder, "compose")
	if err := os.WriteFile(filepath.Join(folder, "compose.yaml"), []byte(set), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := said(t, folder, tool(t, "compose-spec"), "-no-interpolation", "-format", "json", "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var project struct{ Services map[string]service }
	if err := json.Unmarshal(out, &project); err != nil {
		t.Fatal(err)
	}
	return project.Services
}

// composed is what the service of a profile is given.
func composed(t *testing.T, profile string, vars map[string]string) deployed {
	t.Helper()
	s, ok := services(t, vars)[profile]
	if !ok {
		t.Fatalf("compose.yaml has no service %s", profile)
	}
	d := deployed{env: map[string]string{"SHOP_KEY": key, "PARTNER_TOKEN": password, "CLUB_KEY": key}} // of secrets.env
	for name, value := range s.Environment {
		if value != nil {
			d.env[name] = fmt.Sprint(value)
		}
	}
	for _, v := range s.Volumes {
		if v.Target == d.env["TIDEMILL_CONFIG"] {
			d.file = v.Source
		}
	}
	return d
}

// resource is what a chart makes, as far as these tests look.
type resource struct {
	Kind string
	Data map[string]string
	Spec struct {
		Template struct {
			Spec struct {
				Containers []container
			}
		}
	}
}

type container struct {
	Env []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Key string }
		}
	}
}

// secrets are the entries of the Secret that charts name.
var secrets = map[string]string{
	"token": token, "redis-url": "redis://:secret@redis:6379/0", "postgres-url": "postgres://tidemill:secret@postgres:5432/tidemill?sslmode=disable",
	"clickhouse-user": "tidemill", "clickhouse-password": password, "opensearch-url": "http://opensearch:9200",
	"redis-password": password, "mqtt-password": password, "shop-key": key, "partner-token": password, "club-key": key,
}

// helm runs helm template, or another command of it, on the chart.
func helm(t *testing.T, command string, args ...string) ([]byte, error) {
	t.Helper()
	all := []string{command, "helm/tidemill", "--kube-version", "1.33.0"}
	if command == "template" {
		all = []string{command, "tidemill", "helm/tidemill", "--kube-version", "1.33.0"}
	}
	return said(t, "", tool(t, "helm"), append(all, args...)...)
}

// charted is what the chart gives to a pod, with the values and the configuration of a system.
func charted(t *testing.T, system string, args ...string) deployed {
	t.Helper()
	args = append([]string{"-f", "helm/tidemill/values-" + system + ".yaml", "--set-file", "config.text=config/" + system + ".yaml"}, args...)
	if _, err := helm(t, "lint", append(args, "--strict")...); err != nil {
		t.Fatal(err)
	}
	out, err := helm(t, "template", args...)
	if err != nil {
		t.Fatal(err)
	}
	d := deployed{env: map[string]string{}}
	for _, text := range strings.Split(string(out), "\n---\n") {
		var r resource
		plain, err := yaml.YAMLToJSON([]byte(text))
		if err = errors.Join(err, json.Unmarshal(plain, &r)); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		switch r.Kind {
		case "ConfigMap":
			d.file = filepath.Join(t.TempDir(), "tidemill.yaml")
			if err := os.WriteFile(d.file, []byte(r.Data["tidemill.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
		case "Deployment", "StatefulSet":
			for _, e := range r.Spec.Template.Spec.Containers[0].Env {
				d.env[e.Name] = e.Value
				if k := e.ValueFrom.SecretKeyRef.Key; k != "" {
					value, ok := secrets[k]
					if !ok {
						t.Fatalf("values-%s.yaml wants an entry %s of the Secret, which its comment does not name", system, k)
					}
					d.env[e.Name] = value
				}
			}
		}
	}
	delete(d.env, "PROCESSOR_CONSUMER_NAME") // the pod's name
	return d
}

// serviced is what systemd gives to the unit: tidemill.env with the lines of these names in use, and
// the configuration of a system.
func serviced(t *testing.T, system string, names ...string) deployed {
	t.Helper()
	text, err := os.ReadFile("systemd/tidemill.env.example")
	if err != nil {
		t.Fatal(err)
	}
	lines := "\n" + string(text)
	for _, name := range names {
		if !strings.Contains(lines, "\n#"+name+"=") {
			t.Fatalf("tidemill.env.example does not have %s", name)
		}
		lines = strings.Replace(lines, "\n#"+name+"=", "\n"+name+"=", 1)
	}
	d := deployed{env: map[string]string{}, file: "config/" + system + ".yaml"}
	for line := range strings.Lines(lines) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			d.env[name] = value
		}
	}
	d.env["TIDEMILL_TOKEN"] = token
	for _, name := range []string{"SHOP_KEY", "CLUB_KEY", "PARTNER_TOKEN"} {
		if _, ok := d.env[name]; ok {
			d.env[name] = key
		}
	}
	return d
}
