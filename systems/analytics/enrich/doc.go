// Package enrich adds to an event what its sender did not say: the browser, system and
// device behind a user agent string ([Agents]), and the country behind an IP address
// ([Geo]).
//
// Use it between resolving the person and writing the row, and only for fields that the SDK
// left empty. Both lookups only read memory: they never wait, never fail and are safe for
// concurrent use. They leave unknown fields empty. Only [Geo.Refresh] takes time, to get a new
// country database. Its owner calls it from a loop beside the pipeline.
//
// Names are those of ua-parser-js 2, which existing rows and readers use: "Mobile
// Safari", "macOS", "smarttv".
package enrich
