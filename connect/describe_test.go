package connect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/systems"
)

// asked is what the API answers to a POST, with headers by their names.
func asked(in *Instance, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/api/v1/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if !strings.HasSuffix(path, "/add") { // of what is there
		r.Header.Set("If-Match", "*")
	}
	for n := 0; n < len(headers); n += 2 {
		r.Header.Set(headers[n], headers[n+1])
	}
	in.byOperator(r)
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	return w
}

// described is the answer to a change that is to be made.
func describedNow(t *testing.T, w *httptest.ResponseRecorder) (d api.DescriptionChanged) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK {
		t.Fatalf("answered %d: %s", w.Code, w.Body)
	}
	return d
}

func refusedNow(t *testing.T, w *httptest.ResponseRecorder, code int, want string) {
	t.Helper()
	if w.Code != code || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "canary") {
		t.Errorf("answered %d, want %d with %q: %s", w.Code, code, want, w.Body)
	}
}

func partnerText(p *aPartner) string {
	return fmt.Sprintf(`{"endpoint":"%s/?key=canary","allowHttp":true,"allowPrivate":["127.0.0.0/8"],"headers":{"X-Key":"canary"}}`, p.URL)
}

const fileOfShop = `delivery:
  sites:
    - {id: shop, keys: [key-of-the-shop-1]}
  partners:
    - {name: fixed, endpoint: "https://fixed.example/", when: 'event.eventType == "purchase"'}
`

func taken(t *testing.T, in *Instance, key string, n int) string {
	t.Helper()
	id := fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n)
	if code, answer := send(in, "/v1/events", key, id, fmt.Sprintf(viewed, id)); code != http.StatusAccepted {
		t.Fatalf("event %d is answered %d: %s", n, code, answer)
	}
	return id
}

func arrives(t *testing.T, p *aPartner, id string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); p.got(id) == ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("event %s did not arrive", id)
		}
	}
}

func TestAPartnerOfTheDatabase(t *testing.T) {
	r := reloadable(t, fileOfShop, nil)
	one, two := newPartner(t), newPartner(t)
	const ads = "descriptions/partner/ads/"
	if d := describedNow(t, asked(r.Instance, ads+"add?check=true", partnerText(one))); len(d.Instances) != 0 || changed(d.Changes) != "added delivery.partners[ads]" {
		t.Errorf("checked: %+v", d)
	}
	refusedNow(t, get(r.Instance, "/api/v1/descriptions/partner/ads"), http.StatusNotFound, "no partner ads")
	d := describedNow(t, asked(r.Instance, ads+"add", partnerText(one), "Idempotency-Key", "once"))
	if d.From != config.FromDatabase || d.ETag != "1" || d.By == "" || d.Changed == nil || changed(d.Changes) != "added delivery.partners[ads]" || len(d.Instances) != 1 || d.Instances[0].State != "applied" {
		t.Errorf("added: %+v", d)
	}
	again := asked(r.Instance, ads+"add", partnerText(one), "Idempotency-Key", "once")
	if again.Code != http.StatusOK {
		t.Errorf("the same request with its key is answered %d: %s", again.Code, again.Body)
	}
	refusedNow(t, asked(r.Instance, ads+"add", partnerText(one)), http.StatusConflict, "there is a partner ads already")
	arrives(t, one, taken(t, r.Instance, "key-of-the-shop-1", 1))

	id := "0190f3c2-0000-7000-8000-000000000077"
	if w := asked(r.Instance, "partners/ads/test", fmt.Sprintf(viewed, id)); w.Code != http.StatusOK || one.got(id) == "" || strings.Contains(w.Body.String(), "canary") {
		t.Errorf("tested: %d %s", w.Code, w.Body)
	}

	refusedNow(t, asked(r.Instance, ads+"change", `{"timeout":"9s"}`, "If-Match", `"7"`), http.StatusPreconditionFailed, "was changed since it was read")
	if w := get(r.Instance, "/api/v1/descriptions/partner/ads"); !strings.HasPrefix(w.Header().Get("ETag"), `"1.`) || strings.Contains(w.Body.String(), "canary") || !strings.Contains(w.Body.String(), one.URL) {
		t.Errorf("shown: %v %s", w.Header(), w.Body)
	}
	d = describedNow(t, asked(r.Instance, ads+"change", fmt.Sprintf(`{"endpoint":%q,"timeout":"9s"}`, two.URL), "If-Match", `"1"`))
	if d.ETag != "2" || changed(d.Changes) != "changed delivery.partners[ads].endpoint; changed delivery.partners[ads].timeout" || !strings.Contains(string(d.Is), `"timeout":"9s"`) {
		t.Errorf("changed: %+v", d)
	}
	arrives(t, two, taken(t, r.Instance, "key-of-the-shop-1", 2))

	var p struct {
		Off    *time.Time `json:"switchedOffAt"`
		Paused bool       `json:"paused"`
	}
	if err := json.Unmarshal(asked(r.Instance, "partners/ads/off", "").Body.Bytes(), &p); err != nil || p.Off == nil || !p.Paused {
		t.Errorf("switched off: %+v, %v", p, err)
	}
	taken(t, r.Instance, "key-of-the-shop-1", 3)
	settled(t, r.Instance, "delivery")
	if two.count() != 1 {
		t.Errorf("while it was off it got %d", two.count()-1)
	}
	if err := json.Unmarshal(asked(r.Instance, "partners/ads/close", "").Body.Bytes(), &p); err != nil {
		t.Error(err)
	}
	arrives(t, two, taken(t, r.Instance, "key-of-the-shop-1", 4))

	for _, what := range []string{"change", "add", "remove"} {
		refusedNow(t, asked(r.Instance, "descriptions/partner/fixed/"+what, `{"timeout":"9s"}`), http.StatusConflict, "stands in the file of this instance ("+r.path+":5), which wins and is read-only")
	}
	if d = describedNow(t, asked(r.Instance, ads+"remove", "")); changed(d.Changes) != "removed delivery.partners[ads]" || d.Name != "ads" || len(d.Instances) != 1 {
		t.Errorf("removed: %+v", d)
	}
	refusedNow(t, asked(r.Instance, ads+"remove", ""), http.StatusNotFound, "describes no partner ads")
	taken(t, r.Instance, "key-of-the-shop-1", 5)
	settled(t, r.Instance, "delivery")
	if two.count() != 2 {
		t.Errorf("after it was removed it got %d", two.count()-2)
	}
	for op, want := range map[string]string{"addDescription": `"after":{"`, "changeDescription": `"before":{"`, "removeDescription": `"before":{"`} {
		if w := get(r.Instance, "/api/v1/audit-trail?outcome=done&operation="+op).Body.String(); !strings.Contains(w, want) || !strings.Contains(w, `"thing":"partner/ads"`) || strings.Contains(w, "canary") {
			t.Errorf("the audit trail of %s: %s", op, w)
		}
	}
	if log := r.log.String(); strings.Contains(log, "canary") {
		t.Errorf("the log has a secret: %s", log)
	}
}

func TestWhatIsWrongIsNotKept(t *testing.T) {
	r := reloadable(t, fileOfShop+"  queues: [{when: 'true', queue: low}]\n", nil)
	before := r.inForce()
	for path, want := range map[string]string{
		`descriptions/partner/ads/add {"endpiont":"canary"}`:                                                          "did you mean endpoint",
		`descriptions/partner/ads/add {"endpoint":"http://canary.example/"}`:                                          "partner ads: endpoint",
		`descriptions/partner/ads/add {"endpoint":"https://a.example","when":"1+1"}`:                                  "partner ads: when",
		`descriptions/partner/ads/add {"endpoint":"https://a.example","sites":["none"]}`:                              "there is no site",
		`descriptions/partner/ads/add {"endpoint":"https://a.example","auth":{"type":"bearer","credentials":"NONE"}}`: "NONE",
		`descriptions/partner/ads/add canary`:                                                                         "no JSON object",
		`descriptions/partner/a b/add {"endpoint":"https://a.example"}`:                                               "",
		`descriptions/site/blog/add {"keys":["key-of-the-shop-1"]}`:                                                   "have the same key",
		`descriptions/site/blog/add {"origins":["canary"]}`:                                                           "",
		`descriptions/handler/app/add {}`:                                                                             "crm does not run in this instance",
		`descriptions/queue/app/add {}`:                                                                               "site, partner, handler",
	} {
		at, body, _ := strings.Cut(strings.Replace(path, "a b", "a%20b", 1), " ")
		if w := asked(r.Instance, at, body); w.Code/100 != 4 || !strings.Contains(w.Body.String(), want) || strings.Contains(want, "endpoint") && strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s is answered %d: %s", path, w.Code, w.Body)
		}
	}
	if now := r.inForce(); now != before {
		t.Errorf("in force is %s", now)
	}
	if kept := r.shared.kept.Load(); kept.Version != 0 || len(kept.All) != 0 {
		t.Errorf("kept are %+v", kept)
	}
}

func TestASiteOfTheDatabase(t *testing.T) {
	r := reloadable(t, fileOfShop, nil)
	describedNow(t, asked(r.Instance, "descriptions/site/blog/add", `{"keys":["key-of-the-blog-canary"]}`))
	p := newPartner(t)
	describedNow(t, asked(r.Instance, "descriptions/partner/ads/add", partnerText(p)))
	sends := func(key, site string, n int) int {
		id := fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", n)
		code, _ := send(r.Instance, "/v1/events", key, id, strings.Replace(fmt.Sprintf(viewed, id), `"shop"`, `"`+site+`"`, 1))
		return code
	}
	if code := sends("key-of-the-blog-canary", "blog", 1); code != http.StatusAccepted {
		t.Errorf("its key is answered %d", code)
	}
	for _, path := range []string{"/api/v1/descriptions/site/blog", "/api/v1/config", "/api/v1/audit-trail", "/api/v1/descriptions"} {
		if w := get(r.Instance, path); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s shows %s", path, w.Body)
		}
	}
	if all := get(r.Instance, "/api/v1/descriptions?kind=site").Body.String(); strings.Count(all, "\n") != 3 || !strings.Contains(all, r.path+":3") || !strings.Contains(all, "the database") {
		t.Errorf("sites: %s", all)
	}

	// A reload of the file keeps what the database has, and an entry of the file wins.
	r.write(fileOfShop + `    - {name: ads, endpoint: "https://other.example/"}` + "\n")
	if applied, restart := r.must(); applied != "changed delivery.partners[ads].endpoint; changed delivery.partners[ads].headers; changed delivery.partners[ads].allowPrivate; changed delivery.partners[ads].allowHttp" || restart != "" {
		t.Errorf("applied %q, %q", applied, restart)
	}
	refusedNow(t, asked(r.Instance, "descriptions/partner/ads/remove", ""), http.StatusConflict, r.path+":6")
	r.write(fileOfShop)
	if _, restart := r.must(); restart != "" || !strings.Contains(r.inForce(), "from the database") {
		t.Errorf("restart %q: %s", restart, r.inForce())
	}

	// After a restart they are there.
	c := r.InForce()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	c, err := systems.All().Settings().Load(config.Layers{File: r.path, Flags: map[string]string{"data": c.Data, "listen": "127.0.0.1:0", "admin.rates.reads": "0", "admin.rates.changes": "0"}})
	if err != nil {
		t.Fatal(err)
	}
	in := open(t, c, Options{})
	defer running(t, in, nil)()
	id := fmt.Sprintf("0190f3c2-0000-7000-8000-%012d", 9)
	if code, answer := send(in, "/v1/events", "key-of-the-blog-canary", id, strings.Replace(fmt.Sprintf(viewed, id), `"shop"`, `"blog"`, 1)); code != http.StatusAccepted {
		t.Fatalf("answered %d: %s", code, answer)
	}
	arrives(t, p, id)
	describedNow(t, asked(in, "descriptions/site/blog/remove", ""))
	if code, _ := send(in, "/v1/events", "key-of-the-blog-canary", "x", "{}"); code != http.StatusUnauthorized {
		t.Errorf("the key of a site that was removed is answered %d", code)
	}
}

func TestAHandlerOfTheDatabase(t *testing.T) {
	r := reloadable(t, "crm:\n  tenants: [{id: club, keys: [key-of-the-club-1]}]\n", nil)
	describedNow(t, asked(r.Instance, "descriptions/handler/city/add", `{"types":["member.*"],"attributes":[{"attribute":"city","from":"payload.city"}]}`))
	if all := get(r.Instance, "/api/v1/descriptions").Body.String(); !strings.Contains(all, `"kind":"handler","name":"city","from":"the database"`) {
		t.Errorf("there are %s", all)
	}
	refusedNow(t, asked(r.Instance, "descriptions/handler/other/add", `{"types":["member.*"],"attributes":[]}`), http.StatusUnprocessableEntity, "there twice")
	refusedNow(t, asked(r.Instance, "descriptions/handler/app/add", `{"types":["x"],"endpoint":{"url":"https://a.example","secrets":["canary"]}}`), http.StatusBadRequest, "secrets are not kept in the database")
	describedNow(t, asked(r.Instance, "descriptions/handler/city/remove", ""))
}

func TestAnInstanceDoesNotStartWithoutWhatADescriptionNeeds(t *testing.T) {
	r := reloadable(t, fileOfShop, map[string]string{"ADS_TOKEN": "canary"})
	describedNow(t, asked(r.Instance, "descriptions/partner/ads/add", `{"endpoint":"https://ads.example/","auth":{"type":"bearer","credentials":"ADS_TOKEN"}}`))
	data := r.InForce().Data
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	start := func() error {
		c, err := systems.All().Settings().Load(config.Layers{File: r.path, Flags: map[string]string{"data": data, "listen": "127.0.0.1:0", "admin.rates.reads": "0", "admin.rates.changes": "0"}})
		if err != nil {
			t.Fatal(err)
		}
		in, err := Open(t.Context(), systems.All(), c, Options{})
		if err == nil {
			err = in.Close()
		}
		return err
	}
	if err := start(); err == nil || !strings.Contains(err.Error(), "partner ads") || !strings.Contains(err.Error(), "ADS_TOKEN") || !strings.Contains(err.Error(), "of what the database describes") {
		t.Errorf("without its secret: %v", err)
	}
	r.write(fileOfShop + `    - {name: ads, endpoint: "https://other.example/"}` + "\n")
	if err := start(); err != nil {
		t.Errorf("with an entry of the file in its place: %v", err)
	}
}
