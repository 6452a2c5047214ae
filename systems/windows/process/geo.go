package process

import (
	"context"

	"github.com/tidemill/tidemill/systems/windows/record"
)

// Geo removes impossible places, for which a search index would refuse the whole record:
// latitudes beyond 90 and longitudes beyond 180 degrees.
type Geo struct {
	ID    string // the processor's name; empty: geo
	Zero  bool   // removes 0/0 too
	Point string // adds the first place of action, actor 1 and actor 2 to events, under this name, as {"lat","lon"}; empty: none
}

// New makes the processor.
func (g Geo) New() (Processor, error) {
	return Each(or(g.ID, "geo"), func(_ context.Context, _ string, it *Item) error {
		if it.Kind != record.Event {
			return nil
		}
		var point []byte
		r := &it.Record
		for _, lat := range []record.Field{record.ActionGeoLat, record.Actor1GeoLat, record.Actor2GeoLat} {
			lon := lat + 1
			y, okY := r.Float(lat)
			x, okX := r.Float(lon)
			if !okY || !okX {
				continue
			}
			if y < -90 || y > 90 || x < -180 || x > 180 || g.Zero && x == 0 && y == 0 {
				if err := r.Set(lat, nil); err != nil {
					return err
				}
				if err := r.Set(lon, nil); err != nil {
					return err
				}
				continue
			}
			if point == nil && g.Point != "" {
				point = append(append(append([]byte(`{"lat":`), r.Value(lat)...), `,"lon":`...), r.Value(lon)...)
				point = append(point, '}')
			}
		}
		if g.Point == "" {
			return nil
		}
		if point == nil {
			point = []byte("null")
		}
		return r.Add(g.Point, point)
	}), nil
}
