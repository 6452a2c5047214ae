package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/urlsecret"
	"github.com/tidemill/tidemill/serve/api"
)

// settingText is the value of a setting in a description, as a form has it.
func settingText(s *api.DescriptionSetting, description json.RawMessage) string {
	value := raw(description, s.Name)
	if value == nil || s.Secret {
		return ""
	}
	switch s.Kind {
	case config.KindList:
		var all []any
		if json.Unmarshal(value, &all) != nil {
			return string(value)
		}
		var texts []string
		for _, v := range all {
			texts = append(texts, fmt.Sprint(v))
		}
		return strings.Join(texts, "\n")
	case config.KindNames:
		all := textsOf(value)
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			texts = append(texts, name+": "+quotedValue(all[name]))
		}
		return strings.Join(texts, "\n")
	case config.KindGroups:
		text, err := yaml.JSONToYAML(value)
		if err != nil {
			return string(value)
		}
		return strings.TrimSpace(string(text))
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value) // a number, true or false
}

// hides says whether a text is not shown, or not all of it, so that a field cannot have it.
func hides(s *api.DescriptionSetting, description json.RawMessage) bool {
	return s.Kind == config.KindText && strings.Contains(settingText(s, description), urlsecret.Hidden)
}

// fieldText is what the field of a setting has.
func fieldText(s *api.DescriptionSetting, description json.RawMessage) string {
	if hides(s, description) {
		return ""
	}
	return settingText(s, description)
}

// textsOf are names with their values.
func textsOf(value json.RawMessage) map[string]string {
	var all map[string]any
	_ = json.Unmarshal(value, &all) // of another form: there are none
	texts := map[string]string{}
	for name, v := range all {
		texts[name] = fmt.Sprint(v)
	}
	return texts
}

// quotedValue is a value that stands in one line.
func quotedValue(value string) string {
	if strings.TrimSpace(value) != value || strings.ContainsAny(value, "\r\n") || strings.HasPrefix(value, `"`) {
		text, _ := json.Marshal(value) // a text
		return string(text)
	}
	return value
}

// lines are those of a text that have something.
func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// changedSetting is what a merge patch has of a setting whose field has a text, where that is another
// than in a description. Of what is hidden an empty field is no change.
func changedSetting(s *api.DescriptionSetting, was json.RawMessage, text string) (value any, is bool, err error) {
	switch before := fieldText(s, was); {
	case text == before:
		return nil, false, nil
	case s.Kind == config.KindNames:
		return changedNames(textsOf(raw(was, s.Name)), text)
	case text == "":
		return nil, true, nil
	case strings.Contains(text, urlsecret.Hidden) && s.Kind == config.KindText:
		return nil, false, fmt.Errorf("%s stands for what is not shown, and cannot be kept: write all of it, or leave this empty", urlsecret.Hidden)
	}
	value, err = settingValue(s, text)
	return value, err == nil, err
}

// settingValue reads the text of a field. What is no value of the setting stays a text: the check of the
// description says what is wanted.
func settingValue(s *api.DescriptionSetting, text string) (any, error) {
	switch s.Kind {
	case config.KindList:
		return lines(text), nil
	case config.KindTruth:
		if text == "true" || text == "false" {
			return text == "true", nil
		}
	case config.KindWhole, config.KindNumber:
		if json.Valid([]byte(text)) {
			return json.Number(text), nil
		}
	case config.KindGroups:
		value, err := yaml.YAMLToJSON([]byte(text))
		if err == nil && !bytes.HasPrefix(bytes.TrimSpace(value), []byte("[")) {
			err = fmt.Errorf("it is no list")
		}
		if err != nil {
			return nil, fmt.Errorf("want %s", s.Form)
		}
		return json.RawMessage(bytes.TrimSpace(value)), nil
	}
	return text, nil
}

// changedNames is a merge patch of names with values. Those that are not shown stay as they are where
// they are left so, or empty.
func changedNames(was map[string]string, text string) (any, bool, error) {
	now := map[string]string{}
	for _, line := range lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !ok || name == "" {
			return nil, false, fmt.Errorf("line %d: want NAME: VALUE", len(now)+1)
		}
		if strings.HasPrefix(value, `"`) {
			if err := json.Unmarshal([]byte(value), &value); err != nil {
				return nil, false, fmt.Errorf("%s: a value that begins with a quotation mark is a text of JSON", name)
			}
		}
		now[name] = value
	}
	patch := map[string]any{}
	for name, value := range now {
		before, there := was[name]
		secret := strings.Contains(before, urlsecret.Hidden)
		switch {
		case there && value == before, secret && value == "":
		case strings.Contains(value, urlsecret.Hidden):
			return nil, false, fmt.Errorf("%s: %s stands for what is not shown, and cannot be kept: write all of its value", name, urlsecret.Hidden)
		default:
			patch[name] = value
		}
	}
	for name := range was {
		if _, there := now[name]; !there {
			patch[name] = nil
		}
	}
	if len(now) == 0 {
		return nil, true, nil
	}
	return patch, len(patch) > 0, nil
}

// put sets a setting in a patch.
func put(patch map[string]any, path string, value any) {
	name, rest, below := strings.Cut(path, ".")
	if !below {
		patch[name] = value
		return
	}
	group, ok := patch[name].(map[string]any)
	if !ok {
		group = map[string]any{}
		patch[name] = group
	}
	put(group, rest, value)
}
