//go:build servers

package attack

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/systems"
)

// TestEachSecretSettingIsPlanted holds what is planted against the settings that there are: one
// that comes is planted too.
func TestEachSecretSettingIsPlanted(t *testing.T) {
	t.Parallel()
	s := newSpy(t, nil)
	planted := map[string]bool{}
	load := func(file string, env []string) {
		schema, systems := systems.All().Settings(), map[string]reflect.Value{}
		for i, group := range schema {
			schema[i].New = func(c *config.Loaded) config.Settings {
				settings := group.New(c)
				systems[group.Name] = reflect.ValueOf(settings).Elem()
				return settings
			}
		}
		c, _ := schema.Load(config.Layers{File: file, Getenv: func(name string) string { // what is missing beside it does not matter
			for _, e := range env {
				if value, ok := strings.CutPrefix(e, name+"="); ok {
					return value
				}
			}
			return ""
		}})
		note := func(path string, v reflect.Value) {
			text := fmt.Sprint(v)
			if secret, ok := v.Interface().(tidemill.Secret); ok {
				text = secret.Reveal()
			} else if secrets, ok := v.Interface().([]tidemill.Secret); ok && len(secrets) > 0 {
				text = secrets[0].Reveal()
			} else if kind := v.Kind(); kind == reflect.String {
				text = v.String()
			} else if all, ok := v.Interface().(config.Addresses); ok {
				text = strings.Join(all, " ")
			}
			planted[path] = planted[path] || strings.Contains(text, "canary") || strings.HasPrefix(text, "whsec_") || namesVariables(path) && !v.IsZero()
		}
		secretSettings(reflect.ValueOf(c.Config), "", note)
		for name, settings := range systems {
			secretSettings(settings, name, note)
		}
	}
	load(filepath.Join(s.folder, "tidemill.yaml"), s.env)
	for _, c := range refusedServers {
		load("", strings.Fields(s.fill(c.env)))
	}
	if len(planted) < 35 {
		t.Errorf("only %d settings with secrets are known", len(planted))
	}
	for path, yes := range planted {
		if !yes {
			t.Errorf("no secret is planted in %s", path)
		}
	}
}

// namesVariables says whether a setting has the names of variables with secrets.
func namesVariables(path string) bool {
	return strings.HasSuffix(path, "_env") || strings.HasSuffix(path, ".credentials")
}

// secretSettings visits the settings that can have a secret, by their types or names. Lists are
// visited with an element at least.
func secretSettings(v reflect.Value, path string, visit func(string, reflect.Value)) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	switch v.Interface().(type) {
	case tidemill.Secret, []tidemill.Secret, config.URL, config.Addresses:
		visit(path, v)
		return
	}
	switch {
	case namesVariables(path) || slices.Contains([]string{"url", "endpoint", "tokenUrl", "headers", "settings"}, name) && v.Kind() != reflect.Struct && v.Kind() != reflect.Pointer:
		visit(path, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("yaml") != "" {
				secretSettings(v.Field(i), strings.TrimPrefix(path+"."+f.Tag.Get("yaml"), "."), visit)
			}
		}
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		secretSettings(v.Elem(), path, visit)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		secretSettings(reflect.Zero(v.Type().Elem()), path, visit)
		for i := range v.Len() {
			secretSettings(v.Index(i), path, visit)
		}
	}
}
