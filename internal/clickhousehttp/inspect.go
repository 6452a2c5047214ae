package clickhousehttp

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemill/tidemill/internal/preflight"
)

// oldest is the oldest version that is known to support every request.
const oldestYear, oldestMonth = 24, 8

// Inspect checks the server: its version, how inserts are answered, the free space of its
// disks. Anything that cannot be read is a finding too.
func Inspect(ctx context.Context, c *Conn) []preflight.Finding {
	found := []preflight.Finding{ofVersion(c.version)}
	found = append(found, c.inserts(ctx))
	return append(found, c.disks(ctx)...)
}

func ofVersion(v string) preflight.Finding {
	f := preflight.Finding{Check: "clickhouse: version", Verdict: preflight.OK, Detail: v}
	parts := strings.SplitN(v, ".", 3)
	year, err := strconv.Atoi(parts[0])
	month := 0
	if err == nil && len(parts) > 1 {
		month, err = strconv.Atoi(parts[1])
	}
	switch {
	case err != nil || len(parts) < 2:
		f.Verdict, f.Advice = preflight.Warn, fmt.Sprintf("the version cannot be read; %d.%d and newer are known to work", oldestYear, oldestMonth)
	case year < oldestYear-2:
		f.Verdict, f.Advice = preflight.Fail, fmt.Sprintf("use %d.%d or newer", oldestYear, oldestMonth)
	case year < oldestYear || year == oldestYear && month < oldestMonth:
		f.Verdict, f.Advice = preflight.Warn, fmt.Sprintf("%d.%d and newer are known to work", oldestYear, oldestMonth)
	}
	return f
}

// inserts reads the settings that could answer an insert before it is stored, or prevent a
// repeated one from being recognised. Our requests set them; a profile may forbid that.
func (c *Conn) inserts(ctx context.Context) preflight.Finding {
	f := preflight.Finding{Check: "clickhouse: insert settings", Verdict: preflight.OK}
	rows, err := c.Query(ctx, `SELECT name, value, toUInt64(readonly) FROM system.settings
WHERE name IN ('async_insert', 'wait_for_async_insert', 'insert_deduplicate') ORDER BY name`)
	if err != nil {
		return unread(f, err)
	}
	defer rows.Close()
	fixed := map[string]string{}
	var all []string
	for rows.Next() {
		name, value, readonly := rows.String(), rows.String(), rows.UInt64()
		all = append(all, name+"="+value)
		if readonly != 0 {
			fixed[name] = value
		}
	}
	if err := rows.Err(); err != nil {
		return unread(f, err)
	}
	f.Detail = strings.Join(all, " ")
	if fixed["wait_for_async_insert"] == "0" && fixed["async_insert"] != "0" {
		f.Verdict, f.Advice = preflight.Fail, "the user's profile fixes wait_for_async_insert=0: inserts are acknowledged before they are stored; allow it to be changed"
	} else if fixed["insert_deduplicate"] == "0" {
		f.Verdict, f.Advice = preflight.Warn, "the user's profile fixes insert_deduplicate=0: a batch whose answer was lost is stored twice until parts are merged; allow it to be changed"
	} else if len(fixed) > 0 {
		f.Verdict, f.Advice = preflight.Warn, "the user's profile fixes some of these; allow them to be changed, inserts set them"
	}
	return f
}

func (c *Conn) disks(ctx context.Context) []preflight.Finding {
	f := preflight.Finding{Check: "clickhouse: disk", Verdict: preflight.OK}
	rows, err := c.Query(ctx, "SELECT name, toUInt64(free_space), toUInt64(total_space) FROM system.disks ORDER BY name")
	if err != nil {
		return []preflight.Finding{unread(f, err)}
	}
	defer rows.Close()
	var found []preflight.Finding
	for rows.Next() {
		f := f
		name, free, total := rows.String(), rows.UInt64(), rows.UInt64()
		if total == 0 || free > 1<<60 { // object storage has no end
			continue
		}
		f.Check += " " + name
		f.Detail = fmt.Sprintf("%.1f of %.1f GiB free", float64(free)/(1<<30), float64(total)/(1<<30))
		if share := float64(free) / float64(total); share < 0.02 {
			f.Verdict, f.Advice = preflight.Fail, "make room: inserts are about to fail"
		} else if share < 0.15 {
			f.Verdict, f.Advice = preflight.Warn, "make room: merges need space for copies of what they merge"
		}
		found = append(found, f)
	}
	if err := rows.Err(); err != nil {
		found = append(found, unread(f, err))
	}
	return found
}

func unread(f preflight.Finding, err error) preflight.Finding {
	f.Verdict, f.Detail, f.Advice = preflight.Warn, fmt.Sprintf("cannot be read: %v", err), "let the user read the tables system.settings, system.disks and system.tables"
	return f
}
