package apitest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// Reference is the document for people, in Markdown.
func Reference(t testing.TB, all []operation.Handler) []byte {
	doc := newDescriber(t).document(all)
	var b strings.Builder
	b.WriteString("# The API\n\nEverything here is below `" + operation.Prefix + "`. It is made of the same description as [openapi.json](../serve/api/openapi.json), which an instance answers at `" + operation.Prefix + "openapi.json`, and as YAML at `" + operation.Prefix + "openapi.yaml`.\n\n")
	b.WriteString(doc["info"].(object)["description"].(string) + "\n\nEach POST and PUT whose request and answer have no secret takes the header `" + operation.IdempotencyKey + "`. " + onceText + "\n\n" +
		"Some answers have the header `ETag`. " + tagText + "\n\nThe operations that change these need the header `" + operation.IfMatch + "`. " + matchText + "\n\nA read whose answer has an `ETag` takes the header `" + operation.IfNoneMatch + "`. " + noneMatchText + "\n\n## Operations\n")
	paths := doc["paths"].(object)
	for _, h := range all {
		o := paths[operation.Full(h.Description)].(object)[strings.ToLower(h.Method)].(object)
		fmt.Fprintf(&b, "\n### %s %s\n\n%s\n\nRole: %s, %s.%s Cost: %s.\n\n", h.Method, cmp.Or(h.Path, operation.Prefix), h.Text, o["x-role"], forWhich(h.System), fresh(h.Fresh), o["x-cost"])
		if h.Going != nil {
			fmt.Fprintf(&b, "**%s**\n\n", h.Going)
		}
		if ps, ok := o["parameters"].([]any); ok && ps[0].(object)["$ref"] == nil {
			b.WriteString("| parameter | what it is |\n|---|---|\n")
			for _, p := range ps {
				p := p.(object)
				if p["$ref"] != nil {
					continue
				}
				fmt.Fprintf(&b, "| `%s` | %s |\n", p["name"], strings.TrimSpace(kindOf(p["schema"].(object))+". "+said(p)))
			}
			b.WriteString("\n")
		}
		if body, ok := o["requestBody"].(object); ok {
			for kind, c := range body["content"].(object) {
				fmt.Fprintf(&b, "Body: `%s`, %s.\n\n", kind, kindOf(c.(object)["schema"].(object)))
			}
		}
		if o["responses"].(object)["412"] != nil {
			b.WriteString("Header: `" + operation.IfMatch + "`, which it needs.\n\n")
		}
		for _, status := range []string{"200", "2XX"} {
			if r, ok := o["responses"].(object)[status].(object); ok {
				content := r["content"].(object)
				for i, kind := range slices.Sorted(maps.Keys(content)) {
					if i > 0 {
						b.WriteByte('\n')
					}
					fmt.Fprintf(&b, "Answer: `%s`, %s", kind, kindOf(content[kind].(object)["schema"].(object)))
					if r["headers"] != nil {
						b.WriteString(", with its `ETag`")
					}
					b.WriteString(".\n")
				}
			}
		}
	}
	b.WriteString("\n## Problems\n\nWhat is not done is answered with a problem (RFC 9457, `" + operation.ProblemType + "`), whose `detail` says what to do. Its `type` is an address of the instance that explains the kind; a browser is shown a page. Clients take kinds that they do not know by their status.\n\n| type | status | what it means |\n|---|---|---|\n")
	for _, k := range operation.ProblemKinds {
		fmt.Fprintf(&b, "| `%s` | %d %s | %s |\n", k.Type, k.Status, k.Title, k.Text)
	}
	b.WriteString("\n## Forms\n")
	schemas := doc["components"].(object)["schemas"].(object)
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		if strings.HasSuffix(name, partOf) {
			continue
		}
		s := schemas[name].(object)
		fmt.Fprintf(&b, "\n### %s\n\n", name)
		if d := said(s); d != "" {
			b.WriteString(d + "\n\n")
		}
		if properties, ok := s["properties"].(object); ok {
			b.WriteString("| member | what it is |\n|---|---|\n")
			for _, p := range slices.Sorted(maps.Keys(properties)) {
				of := properties[p].(object)
				fmt.Fprintf(&b, "| `%s` | %s |\n", p, strings.TrimSpace(kindOf(of)+". "+said(of)))
			}
		} else {
			b.WriteString(kindOf(s) + ".\n")
		}
	}
	return []byte(b.String())
}

// said is a description in a cell of a table.
func said(o object) string {
	s, _ := o["description"].(string)
	return strings.ReplaceAll(s, "|", "\\|")
}

// kindOf is a schema in words.
func kindOf(s object) string {
	if ref, ok := s["$ref"].(string); ok {
		name, part := strings.CutSuffix(ref[strings.LastIndexByte(ref, '/')+1:], partOf)
		if part {
			return "any part of " + kindOf(object{"$ref": name})
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	if all, ok := s["oneOf"].([]any); ok {
		var words []string
		for _, o := range all {
			words = append(words, kindOf(o.(object)))
		}
		return operation.Or(words)
	}
	if all, ok := s["anyOf"].([]any); ok { // of lines
		return kindOf(all[0].(object))
	}
	if allowed, ok := s["enum"].([]string); ok {
		return "`" + strings.Join(allowed, "`, `") + "`"
	}
	kind := s["type"]
	if several, ok := kind.([]any); ok {
		kind = several[0]
		if kind == nil {
			return kindOf(object{"$ref": s["$ref"]})
		}
	}
	switch kind {
	case "array":
		of, _ := s["items"].(object)
		return "several of " + kindOf(of)
	case "object":
		if p, ok := s["properties"].(object); ok && p["items"] != nil {
			what := "all of it: `items`, which are " + kindOf(p["items"].(object)) + ", and `as_of`"
			if p["next"] != nil {
				what = "a page: `items`, which are " + kindOf(p["items"].(object)) + ", `next`, `previous` and `as_of`"
			}
			return what
		}
		if of, ok := s["additionalProperties"].(object); ok {
			return "by name " + kindOf(of)
		}
		return "object"
	case "string":
		if f, ok := s["format"].(string); ok {
			return map[string]string{"date-time": "time", "uuid": "UUID"}[f]
		}
		return "text"
	case "integer":
		return "whole number"
	case "boolean":
		return "`true` or `false`"
	case nil:
		return "anything"
	}
	return fmt.Sprint(kind)
}

// fresh says in the reference that an operation needs a fresh login.
func fresh(is bool) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(" It needs a login that is not older than %d minutes.", int(operation.FreshFor.Minutes()))
}

// forWhich says for which systems a role has to be.
func forWhich(system string) string {
	switch system {
	case "":
		return "for all systems"
	case operation.Each:
		return "for what is of the systems that it is for"
	}
	return "for " + system
}
