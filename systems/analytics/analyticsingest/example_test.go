package analyticsingest_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/serve/endpoint"
	"github.com/tidemill/tidemill/state/project"
	"github.com/tidemill/tidemill/state/project/tableproject"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/systems/analytics/analyticsingest"
)

func Example() {
	ctx := context.Background()
	projects := tableproject.Memory()
	shop := project.Project{ID: project.ID("shop"), Name: "shop"}
	if err := projects.Ensure(ctx, shop, project.HashOf(tidemill.NewSecret("phc_shop"))); err != nil {
		log.Fatal(err)
	}
	events := memoryqueue.New(memoryqueue.Options{})
	handler, err := analyticsingest.New(analyticsingest.Options{Options: endpoint.Options{Projects: projects}, Intake: events})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()

	body := `{"api_key":"phc_shop","batch":[
		{"event":"order paid","distinct_id":"user-7","uuid":"0190b4f4-0000-7000-8000-000000000001"},
		{"event":"order paid","distinct_id":"undefined"}]}`
	for range 2 { // the second time everything is known
		answer, err := http.Post(server.URL+"/batch/", "application/json", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode, string(text))
	}
	stats, err := events.Stats(ctx, "analytics")
	if err != nil {
		log.Fatal(err)
	}
	did := handler.Handled()
	fmt.Println(stats.Waiting, "waiting;", did.Accepted, "accepted,", did.Known, "known,", did.Refused, "refused")
	// Output:
	// 200 {"status":"Ok"}
	// 200 {"status":"Ok"}
	// 1 waiting; 1 accepted, 1 known, 2 refused
}
