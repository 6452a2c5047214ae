package main

// said is a description with each form that those of Tidemill have.
const said = `{
 "openapi": "3.1.0",
 "paths": {
  "/api/v1/dead": {
   "get": {"operationId": "listDead", "x-role": "viewer", "x-systems": "each", "x-cost": "normal", "summary": "List.", "parameters": [
     {"name": "order", "in": "query", "schema": {"type": "string", "enum": ["oldest", "newest"]}},
     {"name": "system", "in": "query", "schema": {"type": "string"}},
     {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 1000}},
     {"name": "family", "in": "query", "schema": {"type": "string", "default": "event"}}],
    "responses": {
     "200": {"description": "Done.", "content": {
      "application/json": {"schema": {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Letter"}}, "next": {"type": "string"}}}},
      "application/x-ndjson": {"schema": {"anyOf": [{"$ref": "#/components/schemas/Letter"}, {"$ref": "#/components/schemas/End"}]}}}},
     "default": {"$ref": "#/components/responses/Problem"}}}},
  "/api/v1/dead/{letter}": {
   "get": {"operationId": "getDead", "x-role": "viewer", "x-systems": "each", "parameters": [{"name": "letter", "in": "path", "required": true, "schema": {"type": "integer"}}],
    "responses": {"200": {"description": "Done.", "headers": {"ETag": {"schema": {"type": "string"}}}, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Letter"}}}}}}},
  "/api/v1/queues/{name}/settings": {
   "post": {"operationId": "setQueue", "x-role": "operator", "x-systems": "each", "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}, {"$ref": "#/components/parameters/Idempotency-Key"}],
    "requestBody": {"required": true, "content": {"application/merge-patch+json": {"schema": {"$ref": "#/components/schemas/SettingsPatch"}}}},
    "responses": {"200": {"description": "Done.", "content": {"application/json": {"schema": {"type": "object"}}}}}}},
  "/api/v1/events": {
   "post": {"operationId": "sendEvents", "x-role": "admin", "x-systems": "all", "requestBody": {"required": false, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Event"}}}},
    "responses": {"2XX": {"description": "Done.", "content": {"application/json": {"schema": {"type": "object", "additionalProperties": {"type": "integer"}}}}}}}},
  "/api/v1/old": {
   "get": {"operationId": "getOld", "deprecated": true, "x-deprecated": "2027-01-01", "x-sunset": "2027-07-01", "x-role": "viewer", "x-systems": "each", "responses": {"200": {"description": "Done."}}}}
 },
 "components": {
  "parameters": {"Idempotency-Key": {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "pattern": "^[ -~]{1,255}$"}}},
  "responses": {"Problem": {"description": "It was not done.", "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}},
  "schemas": {
   "Letter": {"type": "object", "required": ["seq", "cause"], "properties": {"seq": {"type": "integer", "minimum": 0}, "cause": {"type": "string"}, "died_at": {"type": "string", "format": "date-time"}, "tries": {"type": ["array", "null"], "items": {"type": "number"}}, "inner": {"$ref": "#/components/schemas/Letter"}}},
   "End": {"type": "object", "properties": {"whole": {"type": "object", "properties": {"items": {"type": "integer"}}}}},
   "Problem": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string", "enum": ["full", "gone"]}, "status": {"type": "integer"}}},
   "SettingsPatch": {"type": "object", "properties": {"closed": {"type": ["boolean", "null"]}, "max": {"type": ["integer", "null"]}}},
   "Event": {"type": "object", "required": ["event"], "properties": {"event": {"type": "string"}, "list": {"type": "array"}, "name": {"type": "string"}, "id": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "properties": {"type": "object", "additionalProperties": {"type": "string"}}}}
  }
 }
}`
