package enrich_test

import (
	"fmt"

	"github.com/tidemill/tidemill/systems/analytics/enrich"
)

func ExampleAgents_Parse() {
	agents, err := enrich.NewAgents(enrich.AgentsOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := agents.Parse("Mozilla/5.0 (iPhone; CPU iPhone OS 17_4_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4.1 Mobile/15E148 Safari/604.1")
	fmt.Println(a.Browser, a.BrowserVersion, "on", a.OS, a.OSVersion, "on a", a.Device)
	// Output: Mobile Safari 17.4.1 on iOS 17.4.1 on a mobile
}

func ExampleGeo_Country() {
	geo := enrich.NewGeo(enrich.GeoOptions{}) // no database: every country is empty
	fmt.Printf("%q %q\n", geo.Country("81.2.69.142"), geo.Country("127.0.0.1"))
	// Output: "" ""
}
