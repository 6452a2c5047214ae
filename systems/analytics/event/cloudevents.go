package event

import "github.com/google/uuid"

// cloudevents reads a CloudEvent 1.0 in structured form; the cursor is in the event. Its
// type is the event's name, its subject the distinct id, (source, id) the event's id, and
// its data the properties, read as PostHog's are. Where data is no object (or
// data_base64), the whole CloudEvent is the properties, so that nothing is lost. The
// sender is a server: its address and User-Agent are not the person's.
func (d *decoder) cloudevents(m *Meta, c *cursor, e *Event) error {
	var version, id, source, name, subject, at, data []byte
	for key, ok := c.member(); ok; key, ok = c.member() {
		switch string(key) {
		case "specversion":
			version = c.value()
		case "id":
			id = c.value()
		case "source":
			source = c.value()
		case "type":
			name = c.value()
		case "subject":
			subject = c.value()
		case "time":
			at = c.value()
		case "data":
			if !c.at('{') {
				data = nil
				c.any()
				break
			}
			data, _ = d.bag(c, "data", false)
		default:
			c.any()
		}
	}
	if e.Properties = data; data == nil {
		whole := cursor{b: c.b}
		e.Properties, _ = d.bag(&whole, "", false)
	}
	if e.DistinctID = d.id(subject); e.DistinctID == "" {
		e.DistinctID = d.id(d.props[pDistinctID])
	}
	if err := d.name(name, "type", e); err != nil {
		return err
	}
	if v := string(d.characters(version)); v != "1.0" {
		return invalid("specversion", "%.20q; 1.0 is required", v)
	}
	for _, v := range [...]struct {
		name  string
		value []byte
	}{{"id", id}, {"source", source}} {
		if !is(v.value, '"') || len(v.value) == 2 {
			return invalid(v.name, "missing, empty or no text; a text of at least one character is required")
		}
	}
	if err := e.check("type", "subject"); err != nil {
		return err
	}
	if e.ID == uuid.Nil {
		e.ID = derive([]byte("cloudevent:"), []byte(e.Project.String()), lengthed(d.text(source)), []byte(d.text(id)))
	}
	t, ok, err := d.when(at, "time")
	switch {
	case err != nil:
		return err
	case ok:
		e.Timestamp = rounded(t)
	case m.Received.IsZero():
		return invalid("time", "missing, and so is the time of receiving")
	default:
		e.Timestamp = rounded(m.Received)
	}
	d.context(e)
	if e.Name == "$identify" {
		e.UserID = e.DistinctID
	}
	d.person(e)
	return nil
}
