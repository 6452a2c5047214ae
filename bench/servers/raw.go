package servers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/bench/load"
	"github.com/tidemill/tidemill/internal/clickhousehttp"
	"github.com/tidemill/tidemill/systems/analytics/event"
	"github.com/tidemill/tidemill/systems/analytics/warehouse"
	"github.com/tidemill/tidemill/systems/analytics/warehouse/clickhousewarehouse"
)

// rawDrain reads, acknowledges and deletes, 1,000 entries at a time, and nothing else.
func rawDrain(ctx context.Context, client rueidis.Client, stream string, entries int) error {
	if err := client.Do(ctx, client.B().XgroupCreate().Key(stream).Group("raw").Id("0").Build()).Error(); err != nil {
		return err
	}
	for done := 0; done < entries; {
		got, err := client.Do(ctx, client.B().Xreadgroup().Group("raw", "one").Count(1000).Streams().Key(stream).Id(">").Build()).AsXRead()
		if err != nil {
			return err
		}
		ids := make([]string, 0, 1000)
		for _, e := range got[stream] {
			ids = append(ids, e.ID)
		}
		for _, r := range client.DoMulti(ctx, client.B().Xack().Key(stream).Group("raw").Id(ids...).Build(), client.B().Xdel().Key(stream).Id(ids...).Build()) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		done += len(ids)
	}
	return client.Do(ctx, client.B().Del().Key(stream).Build()).Error()
}

// rawUpsert upserts one person for each event, 1,000 rows a statement, every one changed.
func rawUpsert(ctx context.Context, url string, events int) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "CREATE TABLE raw(id uuid PRIMARY KEY, properties jsonb, updated timestamptz)"); err != nil {
		return err
	}
	ids, props, times := make([]uuid.UUID, 1000), make([]string, 1000), make([]time.Time, 1000)
	for done := 0; done < events; done += len(ids) {
		for i := range ids {
			n := (done + i) % load.Persons
			ids[i] = uuid.UUID{0: byte(n * 31), 1: byte(n), 2: byte(n >> 8)}
			props[i] = fmt.Sprintf(`{"plan":"p%d","seats":%d,"name":"Jane Doe","email":"user%d@example.com"}`, done%4, done, n)
			times[i] = time.Unix(int64(done), 0)
		}
		if _, err := c.Exec(ctx, `INSERT INTO raw SELECT * FROM unnest($1::uuid[], $2::jsonb[], $3::timestamptz[])
			ON CONFLICT (id) DO UPDATE SET properties=excluded.properties, updated=excluded.updated`, ids, props, times); err != nil {
			return err
		}
	}
	_, err = c.Exec(ctx, "DROP TABLE raw")
	return err
}

// rawInsert stores finished events, 2,000 a batch, and does nothing else.
func rawInsert(ctx context.Context, url string, g *load.Generator, events int) error {
	conn, err := clickhousehttp.Open(ctx, url, clickhousehttp.Options{Database: "raw", Password: tidemill.Secret{}})
	if err != nil {
		return err
	}
	defer conn.Close()
	store, err := clickhousewarehouse.New(ctx, conn, clickhousewarehouse.Options{Recent: -1})
	if err != nil {
		return err
	}
	rows := make([]*event.Event, 2000)
	for i := range rows {
		f := entry(g)
		m := tidemill.Message{ID: fmt.Sprint(i)}
		for k := 0; k < len(f); k += 2 {
			m.Header = append(m.Header, tidemill.Field{Name: []byte(f[k]), Value: []byte(strings.Clone(f[k+1]))})
		}
		rows[i] = new(event.Event)
		if err := event.DecodeMessage(&m, event.Clock{}, rows[i]); err != nil {
			return err
		}
	}
	took := make([]warehouse.Outcome, len(rows))
	for done := 0; done < events; done += len(rows) {
		for i := range rows {
			n := done + i
			rows[i].ID = uuid.UUID{0: byte(n * 31), 1: byte(n), 2: byte(n >> 8), 3: byte(n >> 16), 6: 0x40, 8: 0x80}
		}
		if err := store.Insert(ctx, rows, took); err != nil {
			return err
		}
	}
	return conn.Exec(ctx, "DROP DATABASE raw")
}
