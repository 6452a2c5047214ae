package clickhousewarehouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/state/person"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
)

// Override implements warehouse.Warehouse. It inserts rows whose newest version counts.
func (s *Store) Override(ctx context.Context, os []person.Override) error {
	if len(os) == 0 {
		return ctx.Err()
	}
	var projects, persons proto.ColUUID
	var distinct proto.ColStr
	var versions proto.ColUInt64
	for _, o := range os {
		projects.Append(o.Project)
		distinct.Append(o.Distinct)
		persons.Append(o.Person)
		versions.Append(o.Version)
	}
	columns := []proto.InputColumn{{Name: "project_id", Data: projects}, {Name: "distinct_id", Data: distinct}, {Name: "person_id", Data: persons}, {Name: "version", Data: versions}}
	var b proto.Buffer
	err := (proto.Block{Columns: len(columns), Rows: len(os)}).EncodeRawBlock(&b, 0, columns)
	if err == nil {
		err = s.conn.Insert(ctx, insertInto(s.names.overrides, columns), b.Buf, clickhousehttp.Set("async_insert", "0"))
	}
	if err != nil {
		return fmt.Errorf("override the person of %d distinct ids: %w", len(os), err)
	}
	return nil
}

// HighestVersion is the highest stored version of an override; 0: none. A system that takes
// over a deployment has to number above it.
func (s *Store) HighestVersion(ctx context.Context) (version uint64, err error) {
	rows, err := s.conn.Query(ctx, "SELECT max(version) FROM "+s.names.overrides)
	if err == nil {
		defer rows.Close()
		if rows.Next() {
			version = rows.UInt64()
		}
		err = rows.Err()
	}
	if err != nil {
		return 0, fmt.Errorf("read the highest version of overrides: %w", err)
	}
	return version, nil
}

// details is the JSON in the table of warnings.
type details struct {
	Event    string `json:"event_name"`
	Distinct string `json:"distinct_id"`
	Reason   string `json:"reason"`
}

// Warn implements warehouse.Warehouse. Repeated warnings are stored once.
func (s *Store) Warn(ctx context.Context, ws []warehouse.Warning) error {
	if len(ws) == 0 {
		return ctx.Err()
	}
	var projects proto.ColUUID
	var text proto.ColStr
	var at proto.ColUInt32 // the form of a DateTime
	types := new(proto.ColStr).LowCardinality()
	stored := new(proto.ColDateTime64).WithPrecision(6).WithLocation(time.UTC)
	stamp := s.stamps(len(ws))
	for i, w := range ws {
		d, err := json.Marshal(details{w.Event, w.Distinct, w.Reason}, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return fmt.Errorf("keep %d warnings: %w", len(ws), err)
		}
		projects.Append(w.Project)
		types.Append(w.Type)
		text.AppendBytes(d)
		at.Append(uint32(min(max(w.At.Unix(), 0), math.MaxUint32)))
		stored.AppendRaw(proto.DateTime64(stamp + int64(i)))
	}
	columns := []proto.InputColumn{{Name: "project_id", Data: projects}, {Name: "type", Data: types}, {Name: "details", Data: text}, {Name: "timestamp", Data: at}, {Name: "stored_at", Data: stored}}
	var b proto.Buffer
	fixed := len(columns) - 1 // stored_at differs when the batch is tried again
	err := (proto.Block{Columns: len(columns), Rows: len(ws)}).EncodeRawBlock(&b, 0, columns[:fixed])
	if err == nil {
		token := sha256.Sum256(b.Buf)
		columns[fixed].EncodeStart(&b, 0)
		stored.EncodeColumn(&b)
		err = s.conn.Insert(ctx, insertInto(s.names.warnings, columns), b.Buf, clickhousehttp.Set("async_insert", "0"),
			clickhousehttp.Set("insert_deduplicate", "1"), clickhousehttp.Set("insert_deduplication_token", hex.EncodeToString(token[:])))
	}
	if err != nil {
		return fmt.Errorf("keep %d warnings: %w", len(ws), err)
	}
	return nil
}

// Warnings implements warehouse.Reader.
func (s *Store) Warnings(ctx context.Context, f warehouse.WarningFilter) (ws []warehouse.Warning, err error) {
	from, err := f.Place()
	if err != nil {
		return nil, err
	}
	after, direction := "<", " DESC"
	if f.Oldest {
		after, direction = ">", ""
	}
	// The first condition reads no more of the table than the page and what is as old as its beginning.
	rows, err := s.conn.Query(ctx, "SELECT toString(type), details, toInt64(toUnixTimestamp(timestamp)) AS at, toUnixTimestamp64Micro(stored_at) AS tie FROM "+s.names.warnings+
		" WHERE project_id = {project:UUID} AND timestamp "+after+"= toDateTime({second:UInt32}) AND (at, tie) "+after+" ({at:Int64}, {tie:Int64})"+
		" ORDER BY timestamp"+direction+", tie"+direction+" LIMIT {max:UInt64}",
		clickhousehttp.Param("project", f.Project.String()), clickhousehttp.Param("max", strconv.Itoa(f.Most())),
		clickhousehttp.Param("second", strconv.FormatInt(min(max(from.At, 0), math.MaxUint32), 10)),
		clickhousehttp.Param("at", strconv.FormatInt(from.At, 10)), clickhousehttp.Param("tie", strconv.FormatInt(from.Tie, 10)))
	if err != nil {
		return nil, fmt.Errorf("list warnings of project %s: %w", f.Project, err)
	}
	defer rows.Close()
	for rows.Next() {
		w := warehouse.Warning{Project: f.Project, Type: rows.String()}
		var d details
		if text := rows.Bytes(); json.Unmarshal(text, &d, jsontext.AllowInvalidUTF8(true)) != nil {
			d = details{Reason: string(text)} // another writer's
		}
		w.Event, w.Distinct, w.Reason = d.Event, d.Distinct, d.Reason
		at := warehouse.Place{At: rows.Int64(), Tie: rows.Int64()}
		w.At, w.Key = time.Unix(at.At, 0).UTC(), at.Key()
		ws = append(ws, w)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list warnings of project %s: %w", f.Project, err)
	}
	return ws, nil
}
