package apitest

import (
	"reflect"

	"github.com/tidemill/tidemill/serve/api/operation"
)

// status is that of an answer.
func (d *describer) status(o *operation.Description) string {
	if _, several := reflect.Zero(o.Gives).Interface().(interface{ Status() int }); several {
		return "2XX"
	}
	return "200"
}

// answer is the content of an answer.
func (d *describer) answer(o *operation.Description) object {
	switch {
	case o.ID == "getConfig", o.ID == "getOpenAPIYAML":
		return object{"application/yaml": object{"schema": object{"type": "object"}}}
	case o.ID == "makeBackup":
		return object{"application/zstd": object{"schema": object{}}}
	case o.Gives == documents:
		return object{"application/json": object{"schema": object{"type": "object"}}}
	case o.Gives == payloads:
		return object{operation.PayloadType: object{"schema": object{}}}
	case o.Lines:
		return object{"application/json": object{"schema": d.listing(o)}, operation.LinesType: object{"schema": d.lines(o.Gives)}}
	case o.Events:
		return object{operation.EventsType: object{"schema": d.schema(o.Gives)}}
	}
	content := object{"application/json": object{"schema": d.schema(o.Gives)}}
	if o.ID == "getProblem" {
		content[page] = object{"schema": object{"type": "string"}}
	}
	if o.Gives.Implements(reflect.TypeFor[operation.Textual]()) {
		content["text/plain; charset=utf-8"] = object{"schema": object{"type": "string"}}
	}
	return content
}

// listing is the schema of a listing as an object.
func (d *describer) listing(o *operation.Description) object {
	has := object{
		"items":  object{"type": "array", "items": d.schema(o.Gives)},
		"looked": object{"type": "integer", "description": "It ends early: so many that do not match were looked at."},
		"as_of":  object{"type": "string", "format": "date-time", "description": "When it was read."},
	}
	text := "All of the listing."
	if o.Paged() {
		text = "A page of the listing."
		has["next"] = object{"type": "string", "description": "The cursor of the page after this one. Left out: this is the last."}
		has["previous"] = object{"type": "string", "description": "The cursor of the page before this one. Left out: this is the first."}
		has["count"] = d.schema(reflect.TypeFor[operation.Count]())
	}
	return object{"type": "object", "required": []string{"items", "as_of"}, "description": text, "properties": has}
}

// lines is the schema of a line of a listing.
func (d *describer) lines(of reflect.Type) object {
	return object{"anyOf": []any{d.schema(of), d.schema(reflect.TypeFor[operation.ListingEnd]())}}
}
