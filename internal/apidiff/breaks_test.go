package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// today is before the end of getOld.
var today = time.Date(2027, 6, 30, 12, 0, 0, 0, time.UTC)

// changed is the description with texts replaced, each of which has to be there: old, new, old, new…
func changed(t *testing.T, text string, edits ...string) string {
	t.Helper()
	for pair := range slices.Chunk(edits, 2) {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("the description has no %s", pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

func parsed(t *testing.T, text string) *document {
	t.Helper()
	d, err := read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// found compares the description with itself after edits.
func found(t *testing.T, now time.Time, edits ...string) []string {
	t.Helper()
	return breaks(release{parsed(t, said), time.Date(2027, 1, 1, 9, 0, 0, 0, time.UTC)}, parsed(t, changed(t, said, edits...)), now)
}

func TestWhatAClientNoticesIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		want  string // all that is found, with a bar between lines
		edits []string
	}{
		"operation removed":        {"getDead: GET /api/v1/dead/{letter} is gone, and the last release did not say that it goes away: who asks for it is answered 404", []string{`"getDead"`, `"showDead"`}},
		"operation removed early":  {"getOld: GET /api/v1/old is gone before 2027-07-01, until when the last release promised it: who asks for it is answered 404", []string{`"getOld"`, `"other"`}},
		"path changed":             {"listDead: GET /api/v1/dead became GET /api/v1/letters: who asks for the first is answered 404", []string{`"/api/v1/dead":`, `"/api/v1/letters":`}},
		"method changed":           {"setQueue: POST /api/v1/queues/{name}/settings became PUT /api/v1/queues/{name}/settings: who asks for the first is answered 404", []string{`"post": {"operationId": "setQueue"`, `"put": {"operationId": "setQueue"`}},
		"role raised":              {"listDead: it needs the role operator: who has the role viewer is answered 403", []string{`"listDead", "x-role": "viewer"`, `"listDead", "x-role": "operator"`}},
		"for all systems":          {"listDead: its role has to be for all, and not for each: who has it for that alone is answered 403", []string{`"viewer", "x-systems": "each", "x-cost"`, `"viewer", "x-systems": "all", "x-cost"`}},
		"fresh login":              {"listDead: it needs a fresh login: who logged in earlier is answered 403", []string{`"x-cost": "normal"`, `"x-fresh-login": true`}},
		"end moved nearer":         {"getOld: it ends on 2027-06-01, and was promised until 2027-07-01", []string{"2027-07-01", "2027-06-01"}},
		"said before it was":       {"listDead: it is said to go away since 2026-12-31, and the release of 2027-01-01 did not say so: clients have not had that time", []string{`"x-cost": "normal"`, `"x-deprecated": "2026-12-31", "x-sunset": "2027-07-01"`}},
		"parameter needed":         {"listDead: the parameter zz (query) is new and has to be given: who does not know it is refused", []string{`{"name": "system", "in": "query"`, `{"name": "zz", "in": "query", "required": true}, {"name": "system", "in": "query"`}},
		"parameter gone":           {"listDead: the parameter system (query) is gone: who gives it is refused, or not heeded", []string{`"name": "system"`, `"name": "owner"`}},
		"wildcard renamed":         {"getDead: the parameter letter (path) is gone: who gives it is refused, or not heeded|getDead: the parameter seq (path) is new and has to be given: who does not know it is refused", []string{`{letter}`, `{seq}`, `"letter"`, `"seq"`}},
		"parameter became needed":  {"listDead: the parameter system (query) has to be given: who leaves it out is refused", []string{`"system", "in": "query"`, `"system", "in": "query", "required": true`}},
		"key became needed":        {"setQueue: the parameter Idempotency-Key (header) has to be given: who leaves it out is refused", []string{`"in": "header"`, `"in": "header", "required": true`}},
		"choice gone":              {"listDead: the parameter order (query) may not be newest any more: who sends that is refused", []string{`, "newest"`, ``}},
		"text became a choice":     {"listDead: the parameter system (query) has to be one of [a]: who sends another value is refused", []string{`"system", "in": "query", "schema": {"type": "string"`, `"system", "in": "query", "schema": {"type": "string", "enum": ["a"]`}},
		"parameter's type":         {"listDead: the parameter limit (query) may not be integer any more: who sends that is refused", []string{`{"type": "integer", "minimum": 1, "maximum": 1000}`, `{"type": "boolean"}`}},
		"parameter's most":         {"listDead: the parameter limit (query) may not be more than 10 any more: who sends that is refused", []string{`1000`, `10`}},
		"parameter's least":        {"listDead: the parameter limit (query) may not be less than 2 any more: who sends that is refused", []string{`"minimum": 1,`, `"minimum": 2,`}},
		"parameter's form":         {"listDead: the parameter system (query) has to be uuid: who sends another is refused", []string{`"system", "in": "query", "schema": {"type": "string"`, `"system", "in": "query", "schema": {"type": "string", "format": "uuid"`}},
		"parameter's pattern":      {"setQueue: the parameter Idempotency-Key (header) has to look like ^a$: who sends another is refused", []string{`^[ -~]{1,255}$`, `^a$`}},
		"default changed":          {"listDead: the parameter family (query) is mention where it is left out, and was event: who leaves it out gets another answer", []string{`"default": "event"`, `"default": "mention"`}},
		"body became needed":       {"sendEvents: it needs its body: who sends none is refused", []string{`"required": false`, `"required": true`}},
		"body is new and needed":   {"getOld: it needs a body: who sends none is refused", []string{`"getOld",`, `"getOld", "requestBody": {"required": true, "content": {}},`}},
		"no body":                  {"setQueue: it takes no body: what a client sends is refused, or not heeded", []string{`"requestBody": {"required": true, "content": {"application/merge-patch+json"`, `"x": {"required": true, "content": {"application/merge-patch+json"`}},
		"body's kind":              {"setQueue: the body is not application/merge-patch+json any more: who sends or wants that is refused", []string{`application/merge-patch+json`, `application/json`}},
		"body's member gone":       {"setQueue: SettingsPatch.closed is gone: who sends it is refused", []string{`"closed": {"type": ["boolean", "null"]}, `, ``}},
		"body's member needed":     {"sendEvents: Event.name has to be there: who leaves it out is refused", []string{`"required": ["event"]`, `"required": ["event", "name"]`}},
		"body's new member needed": {"sendEvents: Event.id2 has to be there: who leaves it out is refused", []string{`"required": ["event"], "properties": {`, `"required": ["event", "id2"], "properties": {"id2": {}, `}},
		"body's null":              {"setQueue: SettingsPatch.max may not be null any more: who sends that is refused", []string{`"max": {"type": ["integer", "null"]}`, `"max": {"type": "integer"}`}},
		"body's alternative gone":  {"sendEvents: Event.id may not be integer any more: who sends that is refused", []string{`[{"type": "string"}, {"type": "integer"}]`, `[{"type": "string"}]`}},
		"body's map":               {"sendEvents: a member of Event.properties may not be string any more: who sends that is refused", []string{`"additionalProperties": {"type": "string"}`, `"additionalProperties": {"type": "integer"}`}},
		"body's map gone":          {"sendEvents: Event.properties has no members of any name any more", []string{`"type": "object", "additionalProperties": {"type": "string"}`, `"type": "object"`}},
		"answer's kind":            {"listDead: the answer 200 is not application/x-ndjson any more: who sends or wants that is refused", []string{`application/x-ndjson`, `text/plain`}},
		"answer's status":          {"sendEvents: it does not answer 2XX: clients that look for it take it for a failure|sendEvents: it may answer 202, which clients do not expect", []string{`"2XX"`, `"202"`}},
		"answer's header":          {"getDead: the answer 200 has no header ETag: who reads it finds nothing", []string{`{"ETag": {"schema": {"type": "string"}}}`, `{}`}},
		"answer's member gone":     {"getDead, listDead: Letter.cause is gone: who reads it finds nothing", []string{`"cause": {"type": "string"}, `, ``, `, "cause"`, ``}},
		"inline member gone":       {"listDead: the answer 200.next is gone: who reads it finds nothing", []string{`, "next": {"type": "string"}`, ``}},
		"answer's type":            {"getDead, listDead: Letter.cause may be integer, and was string: who reads it fails", []string{`"cause": {"type": "string"}`, `"cause": {"type": "integer"}`}},
		"answer became anything":   {"getDead, listDead: Letter.cause may be anything, and was string: who reads it fails", []string{`"cause": {"type": "string"}`, `"cause": {}`}},
		"answer's null":            {"getDead, listDead: Letter.cause may be null, and was string: who reads it fails", []string{`"cause": {"type": "string"}`, `"cause": {"type": ["string", "null"]}`}},
		"answer's form":            {"getDead, listDead: Letter.died_at is no date-time any more: who reads it so fails", []string{`, "format": "date-time"`, ``}},
		"answer left out":          {"getDead, listDead: Letter.cause may be left out: who reads it may find nothing", []string{`["seq", "cause"]`, `["seq"]`}},
		"answer's least":           {"getDead, listDead: Letter.seq may be less than 0, which clients do not expect", []string{`"minimum": 0`, `"minimum": -1`}},
		"answer's items":           {"getDead, listDead: an item of Letter.tries may be string, and was number: who reads it fails", []string{`"items": {"type": "number"}`, `"items": {"type": "string"}`}},
		"items of any kind":        {"getDead, listDead: an item of Letter.tries may be anything, and was number: who reads it fails", []string{`, "items": {"type": "number"}`, ``}},
		"items of one kind":        {"sendEvents: an item of Event.list may not be anything any more: who sends that is refused", []string{`"list": {"type": "array"}`, `"list": {"type": "array", "items": {"type": "string"}}`}},
		"one of several forms":     {"getDead, listDead: Letter.cause may be integer, which clients do not expect", []string{`"cause": {"type": "string"}`, `"cause": {"oneOf": [{"type": "string"}, {"type": "integer"}]}`}},
		"a form of one":            {"sendEvents: Event.id may not be integer any more: who sends that is refused", []string{`{"oneOf": [{"type": "string"}, {"type": "integer"}]}`, `{"type": "string"}`}},
		"answer's map":             {"sendEvents: a member of the answer 2XX may be string, and was integer: who reads it fails", []string{`"additionalProperties": {"type": "integer"}`, `"additionalProperties": {"type": "string"}`}},
		"a line's member gone":     {"listDead: End.whole.items is gone: who reads it finds nothing", []string{`"properties": {"items": {"type": "integer"}}`, `"properties": {}`}},
		"another kind of line":     {"listDead: the answer 200 may be Problem, which clients do not expect", []string{`{"$ref": "#/components/schemas/End"}]`, `{"$ref": "#/components/schemas/End"}, {"$ref": "#/components/schemas/Problem"}]`}},
		"problem's member gone":    {"listDead: Problem.status is gone: who reads it finds nothing", []string{`, "status": {"type": "integer"}`, ``}},
	} {
		if got := strings.Join(found(t, today, c.edits...), "|"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestWhatNoClientNoticesIsLetBe(t *testing.T) {
	for name, edits := range map[string][]string{
		"nothing":                    {},
		"operation added":            {`"/api/v1/old":`, `"/api/v1/new": {"get": {"operationId": "getNew", "responses": {"200": {}}}}, "/api/v1/old":`},
		"parameter added":            {`{"name": "system", "in": "query"`, `{"name": "zz", "in": "query"}, {"name": "system", "in": "query"`},
		"choice added":               {`"newest"]`, `"newest", "best"]`},
		"more allowed":               {`1000`, `2000`},
		"any text taken":             {`, "pattern": "^[ -~]{1,255}$"`, ``},
		"any choice taken":           {`, "enum": ["oldest", "newest"]`, ``},
		"default added":              {`"system", "in": "query", "schema": {"type": "string"`, `"system", "in": "query", "schema": {"type": "string", "default": "x"`},
		"number where integer was":   {`{"type": "string"}, {"type": "integer"}`, `{"type": "string"}, {"type": "number"}`},
		"integer where number was":   {`"items": {"type": "number"}`, `"items": {"type": "integer"}`},
		"body's member added":        {`"max": {`, `"min": {}, "max": {`},
		"body taken without":         {`"required": ["event"]`, `"required": []`},
		"body of another kind too":   {`"content": {"application/merge-patch+json"`, `"content": {"application/x": {}, "application/merge-patch+json"`},
		"body where there was none":  {`"getOld",`, `"getOld", "requestBody": {"content": {}},`},
		"alternative added":          {`{"type": "string"}, {"type": "integer"}`, `{"type": "boolean"}, {"type": "string"}, {"type": "integer"}`},
		"several forms taken":        {`"name": {"type": "string"}, "id"`, `"name": {"oneOf": [{"type": "integer"}, {"type": "string"}]}, "id"`},
		"answer's member added":      {`["seq", "cause"], "properties": {`, `["seq", "cause", "zz"], "properties": {"zz": {}, `},
		"answer's value added":       {`"full", "gone"`, `"full", "gone", "new"`},
		"answer's value given up":    {`"full", "gone"`, `"full"`},
		"always there now":           {`["seq", "cause"]`, `["seq", "cause", "died_at"]`},
		"never null now":             {`["array", "null"]`, `"array"`},
		"answer of another kind too": {`"application/x-ndjson": {`, `"text/plain": {}, "application/x-ndjson": {`},
		"problem added":              {`"default": {`, `"412": {"description": "No."}, "default": {`},
		"component renamed":          {`schemas/Letter"`, `schemas/DeadLetter"`, `"Letter":`, `"DeadLetter":`},
		"words":                      {`List.`, `List them.`},
		"role lowered":               {`"sendEvents", "x-role": "admin"`, `"sendEvents", "x-role": "viewer"`},
		"for one system, of all":     {`"x-systems": "all"`, `"x-systems": "analytics"`},
		"end put off":                {`2027-07-01`, `2028-07-01`},
		"it stays after all":         {`"deprecated": true, "x-deprecated": "2027-01-01", "x-sunset": "2027-07-01", `, ``},
		"said to go away":            {`"x-cost": "normal"`, `"x-deprecated": "2027-01-01", "x-sunset": "2027-07-01"`},
	} {
		if got := found(t, today, edits...); len(got) > 0 {
			t.Errorf("%s: %s", name, strings.Join(got, "\n"))
		}
	}
}

func TestWhatWasPromisedUntilADayMayBeGoneFromItOn(t *testing.T) {
	end := time.Date(2027, 7, 1, 0, 0, 0, 0, time.UTC)
	for now, want := range map[time.Time]int{end.Add(-time.Second): 1, end: 0} {
		if got := found(t, now, `"getOld"`, `"other"`); len(got) != want {
			t.Errorf("at %v: %q", now, got)
		}
	}
}

func TestManyOperationsAreCounted(t *testing.T) {
	if got := several(names{"e", "d", "c", "b", "a"}); got != "a, b, c and 2 more" {
		t.Error(got)
	}
	if got := several(names{"b", "a", "d", "c"}); got != "a, b, c, d" {
		t.Error(got)
	}
}

func TestAKeywordThatWouldNotBeComparedIsRefused(t *testing.T) {
	if _, err := read([]byte(changed(t, said, `"minimum": 0`, `"exclusiveMinimum": 0`))); err == nil || !strings.Contains(err.Error(), "exclusiveMinimum") {
		t.Errorf("it is read: %v", err)
	}
	if _, err := read([]byte(changed(t, said, `parameters/Idempotency-Key`, `parameters/None`))); err == nil || !strings.Contains(err.Error(), "setQueue: there is no #/components/parameters/None") {
		t.Errorf("it is read: %v", err)
	}
	if _, err := read([]byte(changed(t, said, `responses/Problem`, `responses/None`))); err == nil || !strings.Contains(err.Error(), "listDead: there is no #/components/responses/None") {
		t.Errorf("it is read: %v", err)
	}
}
