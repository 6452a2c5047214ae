package partner_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/sink/httpsink"
	"github.com/tidemill/tidemill/systems/delivery/partner"
)

func answered(status int, body string) *httpsink.Answer {
	return &httpsink.Answer{Status: status, Body: []byte(body), Whole: true}
}

func TestSuccessAndOutcomes(t *testing.T) {
	p := partner.Partner{
		Success: `status == 204 || body.status == "ok"`,
		Outcomes: []partner.Outcome{
			{When: `status == 409`, Kind: "delivered"},
			{When: `body.error.code in ["DUPLICATE", 17]`, Kind: "delivered"},
			{When: `body.error.retry == false`, Kind: "validation", Why: "it says never"},
			{When: `raw == "busy"`, Kind: "rate_limit"},
		},
	}
	judge, _, err := partner.Rules(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		answer  *httpsink.Answer
		kind    tidemill.Kind
		decided bool
	}{
		{"success", answered(200, `{"status":"ok"}`), 0, false},
		{"no content", answered(204, ``), 0, false},
		{"200 with an error body", answered(200, `{"status":"failed"}`), tidemill.Partner, true},
		{"200 with something else", answered(200, `<html>`), tidemill.Partner, true},
		{"200 with nothing", answered(200, ``), tidemill.Partner, true},
		{"200 with a list", answered(200, `[]`), tidemill.Partner, true},
		{"there already", answered(409, ``), 0, true},
		{"there already, in words", answered(400, `{"error":{"code":"DUPLICATE"}}`), 0, true},
		{"there already, in numbers", answered(400, `{"error":{"code":17}}`), 0, true},
		{"never", answered(500, `{"error":{"retry":false}}`), tidemill.Validation, true},
		{"in plain text", answered(200, `busy`), tidemill.RateLimit, true},
		{"what no rule is about", answered(500, `{}`), 0, false},
		{"an answer that broke off", &httpsink.Answer{Status: 200, Body: []byte(`{"status":"ok"`)}, tidemill.Unknown, true},
	} {
		if v, decided := judge(c.answer); decided != c.decided || v.Kind != c.kind {
			t.Errorf("%s: %v, decided %v; want %v, %v", c.name, v, decided, c.kind, c.decided)
		}
	}
	for _, bad := range []partner.Outcome{{When: "status == 1"}, {When: "status == 1", Kind: "none"}, {When: "status", Kind: "validation"}, {Kind: "validation"}} {
		if _, _, err := partner.Rules(partner.Partner{Outcomes: []partner.Outcome{bad}}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestResultsOfItems(t *testing.T) {
	failed := []partner.Outcome{{When: `item.code == "busy"`, Kind: "rate_limit"}}
	inOrder := partner.Items{List: "body.results", Failed: "item.ok != true", Outcomes: failed}
	byID := partner.Items{List: "body.results", ID: "item.id", Failed: "item.ok != true", Outcomes: failed}
	byIndex := partner.Items{List: "body.results", Index: "item.n", Failed: "item.ok != true"}
	fromOne, auto := byIndex, byIndex
	fromOne.Base, auto.Base = "1", "auto"
	for _, c := range []struct {
		name  string
		items partner.Items
		body  string
		want  string // kinds, or what the error says
	}{
		{"in order", inOrder, `{"results":[{"ok":true},{"ok":false},{"code":"busy"}]}`, "none validation rate_limit"},
		{"in order, one is missing", inOrder, `{"results":[{"ok":true},{"ok":true}]}`, "2 results for 3"},
		{"in order, one too many", inOrder, `{"results":[{},{},{},{}]}`, "4 results for 3"},
		{"by id", byID, `{"results":[{"id":"c","ok":true},{"id":"a","ok":false},{"id":"b","ok":true}]}`, "validation none none"},
		{"by id, one is missing", byID, `{"results":[{"id":"c","ok":true},{"id":"a","ok":true}]}`, "none unknown none"},
		{"by id, one twice", byID, `{"results":[{"id":"a","ok":true},{"id":"a","ok":true}]}`, "two results"},
		{"by id, a stranger", byID, `{"results":[{"id":"x","ok":true}]}`, "no message"},
		{"by id, none", byID, `{"results":[{"ok":true}]}`, "no message"},
		{"by index", byIndex, `{"results":[{"n":2,"ok":true},{"n":0,"ok":false}]}`, "validation unknown none"},
		{"by index, beyond", byIndex, `{"results":[{"n":3,"ok":true}]}`, "no message"},
		{"by index, below", byIndex, `{"results":[{"n":-1,"ok":true}]}`, "no message"},
		{"by index, a fraction", byIndex, `{"results":[{"n":0.5,"ok":true}]}`, "no message"},
		{"by index, a text", byIndex, `{"results":[{"n":"0","ok":true}]}`, "no message"},
		{"from one", fromOne, `{"results":[{"n":3,"ok":true},{"n":1,"ok":false}]}`, "validation unknown none"},
		{"from one, there is a zero", fromOne, `{"results":[{"n":0,"ok":true}]}`, "no message"},
		{"auto from one", auto, `{"results":[{"n":3,"ok":true},{"n":1,"ok":true},{"n":2,"ok":false}]}`, "none validation none"},
		{"auto from zero", auto, `{"results":[{"n":0,"ok":true},{"n":1,"ok":true},{"n":2,"ok":false}]}`, "none none validation"},
		{"auto, nobody can tell", auto, `{"results":[{"n":1,"ok":true},{"n":2,"ok":true}]}`, "from 0 or from 1"},
		{"auto, both", auto, `{"results":[{"n":0,"ok":true},{"n":3,"ok":true}]}`, "no message"},
		{"auto, none", auto, `{"results":[]}`, "unknown unknown unknown"},
		{"no list", inOrder, `{"results":{}}`, "no list"},
		{"nothing", inOrder, ``, "cannot fetch"},
		{"no JSON", inOrder, `<html>`, "cannot fetch"},
		{"items of another kind", inOrder, `{"results":[1,2,3]}`, "cannot fetch"},
	} {
		p := partner.Partner{Items: c.items}
		_, items, err := partner.Rules(p)
		if err != nil {
			t.Fatal(err)
		}
		v, err := items(answered(200, c.body), []string{"a", "b", "c"})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			continue
		}
		var got []string
		for _, one := range v {
			got = append(got, one.Kind.String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
	_, items, _ := partner.Rules(partner.Partner{Items: byID})
	if _, err := items(answered(200, `{"results":[{"id":"a","ok":true}]}`), []string{"a", "a"}); err == nil {
		t.Error("two messages of one id are told apart")
	}
}

// For any answer of a partner, each message has one verdict or an error, and only a result
// makes it delivered.
func FuzzItems(f *testing.F) {
	for _, s := range []string{`{"results":[{"id":"a","n":0,"ok":true}]}`, `{"results":[{"id":1,"n":1e0,"ok":true},{"n":2}]}`, `[]`, `{"results":null}`, `{"results":[[]]}`,
		`{"results":[{"id":"a","ok":true},{"id":"b","ok":false},{"id":"c","ok":true}]}`, strings.Repeat(`{"results":`, 50)} {
		f.Add([]byte(s))
	}
	var readers []func(*httpsink.Answer, []string) ([]httpsink.Verdict, error)
	for _, i := range []partner.Items{
		{List: "body.results", Failed: "item.ok != true"},
		{List: "body.results", ID: "item.id", Failed: "item.ok != true"},
		{List: "concat(body.results ?? [], body.errors ?? [])", Index: "item.n", Base: "auto", Failed: "item.ok != true"},
	} {
		_, items, err := partner.Rules(partner.Partner{Items: i})
		if err != nil {
			f.Fatal(err)
		}
		readers = append(readers, items)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ids := []string{"a", "b", "c"}
		for _, items := range readers {
			v, err := items(answered(200, string(body)), ids)
			if err == nil && len(v) != len(ids) {
				t.Fatalf("%d verdicts", len(v))
			}
			delivered := 0
			for _, one := range v {
				if one.Kind == tidemill.NoKind {
					delivered++
				}
			}
			if said := strings.Count(string(body), "true"); delivered > said && !strings.Contains(string(body), `\u`) {
				t.Errorf("%d delivered, and %d results say so", delivered, said)
			}
		}
	})
}

func FuzzSuccess(f *testing.F) {
	for _, s := range []string{`{"status":"ok"}`, `{"status":["ok"]}`, `"ok"`, `{"status":{"status":"ok"}}`, `null`, "\xff"} {
		f.Add(200, []byte(s), true)
	}
	judge, _, err := partner.Rules(partner.Partner{Success: `body.status == "ok"`})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte, whole bool) {
		v, decided := judge(&httpsink.Answer{Status: status, Body: body, Whole: whole})
		var in struct{ Status any }
		fine := whole && json.Unmarshal(body, &in) == nil && in.Status == "ok"
		if taken := !decided; status >= 200 && status < 300 && taken && !fine {
			t.Errorf("%d %q is taken", status, body)
		}
		if decided && v.Kind == tidemill.NoKind {
			t.Errorf("%d %q is taken", status, body)
		}
	})
}

// Values go through expressions unchanged.
func FuzzValues(f *testing.F) {
	for _, s := range []string{sample, `12345678901234567890`, `1.10`, `-0`, `1e400`, `0.1e-400`, `"\ud800"`, `{"a":1,"a":2}`, `0.00000000000000000001`, `123456789012345.6`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := partner.Decoded(text)
		if err != nil {
			return
		}
		first, err := partner.Encoded(nil, v)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		again, err := partner.Decoded(first)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, first, err)
		}
		second, _ := partner.Encoded(nil, again)
		if string(first) != string(second) {
			t.Errorf("%q became %q, then %q", text, first, second)
		}
		if a, b := numbers(text), numbers(first); a != b && a != "?" && b != "?" {
			t.Errorf("%q became %q", text, first)
		}
	})
}

// numbers sums what a text has of them, exactly.
func numbers(text []byte) string {
	var v any
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return "?"
	}
	if n, ok := v.(json.Number); ok {
		return rational(n)
	}
	return fmt.Sprintf("%T", v)
}

// A partner's reason for each message is in its cause.
func TestWhatAPartnerSaysOfAnItem(t *testing.T) {
	p := partner.Partner{Items: partner.Items{List: "body.results", Failed: "item.ok != true", Outcomes: []partner.Outcome{{When: `item.code == "busy"`, Kind: "rate_limit", Why: "it is busy"}}}}
	_, items, err := partner.Rules(p)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("ü", 400)
	v, err := items(answered(200, `{"results":[
		{"status":"x","errors":[{"code":"NOT_FOUND","message":"No Floodlight activity 4 "},{"errorMessage":"too old"},{"message":"too old"}],"value":{"text":"not this"}},
		{"code":"busy","reason":"quota"},
		{"description":"`+long+`"},
		{"code":"busy"}]}`), []string{"a", "b", "c", "d"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"the partner refused this message: NOT_FOUND; No Floodlight activity 4; too old", "it is busy: quota",
		"the partner refused this message: " + long[:2*299] + "…", "it is busy"} {
		if v[i].Why != want {
			t.Errorf("message %d: %s\nwant %s", i, v[i].Why, want)
		}
	}
}
