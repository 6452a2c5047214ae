package deliveryingest

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/systems/delivery/accept"
	"github.com/tidemill/tidemill/systems/delivery/event"
)

// gif is a transparent GIF of 1×1.
var gif = []byte("GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")

// pixel takes an event from the address of a picture. Where the site takes such events the
// answer is the picture, whatever became of the event: its status says so for those who
// look.
func (x *exchange) pixel() *request.Problem {
	q := x.R.URL.Query()
	if p := x.publicSite(q.Get("sid")); p != nil {
		return p
	}
	if x.site == "" {
		return request.BadRequest("sid, the site's id, is missing")
	}
	h := x.Header
	h["Cache-Control"] = []string{"no-store, no-cache, must-revalidate, private, max-age=0"}
	h["Pragma"] = []string{"no-cache"}
	h["Expires"] = []string{"0"}
	h["Cross-Origin-Resource-Policy"] = []string{"cross-origin"}
	code := http.StatusOK
	p := x.admitAddress()
	if p == nil {
		p = x.picture(q.Get("d"), q.Get("eid"))
	}
	if p != nil && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		code = p.Status
		x.RetryAfter(p)
	}
	h["Content-Type"] = []string{"image/gif"}
	x.Send(code, gif)
	return nil
}

// picture takes the event of a pixel.
func (x *exchange) picture(data, eid string) *request.Problem {
	raw, err := unbase64(data)
	if err != nil {
		x.Count(rejected, 1)
		return request.Malformed("d is no base64")
	}
	x.items = append(x.items, accept.Item{Raw: raw})
	if p := x.judge(x.given(false)); p != nil {
		x.Count(rejected, 1)
		return p
	}
	e := &x.items[0].Event
	wrong := x.items[0].Refused != nil || e.Site != x.site || eid != "" && !event.CheckKey(eid)
	if id := strings.ToLower(eid); event.IsID(eid) && !wrong {
		wrong = e.ID != "" && e.ID != id // two ids are one too many
		e.ID = id
	}
	if wrong {
		x.Count(rejected, 1)
		return request.Refuse(http.StatusBadRequest, accept.ErrorInvalid, "the event is not valid")
	}
	key := eid
	if key == "" {
		if key = e.ID; key == "" {
			key = x.h.o.NewID().String() // nothing tells it from another
		}
	}
	x.Body.Bytes = raw
	_, p := x.accept("pixel", key)
	return p
}

// unbase64 decodes either alphabet, with or without padding, and with spaces where an
// address has lost a plus.
func unbase64(s string) ([]byte, error) {
	s = strings.TrimRight(s, "=")
	s = strings.NewReplacer("-", "+", "_", "/", " ", "+").Replace(s)
	return base64.RawStdEncoding.DecodeString(s)
}
