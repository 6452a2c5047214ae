package analyticsingest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
)

func TestKeysAreRememberedForAWhile(t *testing.T) {
	d := newTestIngest(t)
	for range 10 {
		want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 202, "*")
		want(t, d.send("/v1/batch", nativeBody(nat), header{"X-Api-Key": "wrong"}), 401, "*")
	}
	if d.projects.asked != 2 {
		t.Errorf("projects were asked %d times for two keys", d.projects.asked)
	}
	// A key made just now works soon.
	d.projects.keys[project.HashOf(tidemill.NewSecret("wrong"))] = project.Project{ID: otherProject}
	d.now = d.now.Add(request.KeyUnknown)
	want(t, d.send("/v1/batch", nativeBody(nat), header{"X-Api-Key": "wrong"}), 202, "*")
	// One taken away is refused a little later.
	delete(d.projects.keys, project.HashOf(tidemill.NewSecret(goodKey)))
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 202, "*")
	d.now = d.now.Add(request.KeyLife)
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 401, "*")
}

func TestKnownKeysOutliveAnOutageOfTheProjects(t *testing.T) {
	d := newTestIngest(t)
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 202, "*")
	d.projects.err = errors.New("connection refused")
	d.now = d.now.Add(request.KeyLife + time.Second)
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 202, "*")
	want(t, d.send("/v1/batch", nativeBody(nat), header{"X-Api-Key": otherKey}), 503, `{"retryable":true}`)
	d.now = d.now.Add(request.KeyInTrouble)
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 503, `{"retryable":true}`)
}

func TestAFloodOfWrongKeysIsBounded(t *testing.T) {
	d := newTestIngest(t)
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 202, "*")
	for i := range request.KeysKept + 100 {
		if _, err := d.Keys.Find(t.Context(), fmt.Sprint("wrong", i)); !errors.Is(err, project.ErrUnknown) {
			t.Fatal(err)
		}
	}
	if n := d.Keys.Unknown(); n != request.KeysKept {
		t.Errorf("%d unknown keys are remembered; want %d", n, request.KeysKept)
	}
	asked := d.projects.asked
	want(t, d.send("/v1/batch", nativeBody(nat), apiKey), 202, "*")
	if d.projects.asked != asked {
		t.Error("wrong keys pushed a known one out")
	}
}

func TestKeysNobodyCouldHaveAreNotAskedFor(t *testing.T) {
	d := newTestIngest(t)
	for _, key := range []string{"with space", "ümlaut", string(make([]byte, 129))} {
		if _, err := d.Keys.Find(t.Context(), key); !errors.Is(err, project.ErrUnknown) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if d.projects.asked != 0 {
		t.Errorf("asked %d times", d.projects.asked)
	}
}

func TestWhereKeysMayBe(t *testing.T) {
	for _, h := range []header{{"X-Api-Key": goodKey}, {"Authorization": "Bearer " + goodKey}, {"authorization": "bearer  " + goodKey},
		basic, {"X-Api-Key": goodKey, "Authorization": "Bearer other"}} {
		want(t, newTestIngest(t).send("/v1/batch", nativeBody(nat), h), 202, "*")
	}
	for _, h := range []header{{"Authorization": goodKey}, {"Authorization": "Basic ???"}, {"Authorization": "Digest " + goodKey}, {"X-Api-Key": ""}} {
		want(t, newTestIngest(t).send("/v1/batch", nativeBody(nat), h), 401, "*")
	}
	mixed := `{"api_key":"` + goodKey + `","token":"` + otherKey + `","batch":[` + ph + `]}`
	want(t, newTestIngest(t).send("/batch/", mixed), 401, "*")
	same := `{"api_key":"` + goodKey + `","token":"` + goodKey + `","batch":[` + ph + `]}`
	want(t, newTestIngest(t).send("/batch/", same), 200, "*")
	want(t, newTestIngest(t).send("/batch/", `{"api_key":7,"token":"`+goodKey+`","batch":[`+ph+`]}`), 200, "*")
	// With a key of the batch, its events' own do not count.
	want(t, newTestIngest(t).send("/batch/", posted(`{"event":"e","distinct_id":"u","properties":{"token":"`+otherKey+`"}}`)), 200, "*")
}
