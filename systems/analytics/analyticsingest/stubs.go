package analyticsingest

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
)

// What PostHog's SDKs ask for at their start and would not run well without. There are no
// feature flags, surveys or recordings here, and the answers say so.
const (
	flagsAnswer   = `{"flags":{},"featureFlags":{},"featureFlagPayloads":{},"errorsWhileComputingFlags":false}`
	configAnswer  = `{"supportedCompression":["gzip","gzip-js"],"hasFeatureFlags":false,"sessionRecording":false,"surveys":false,"heatmaps":false,"capturePerformance":false,"autocaptureExceptions":false,"autocapture_opt_out":false,"siteApps":[],"toolbarParams":{},"isAuthenticated":false,"defaultIdentifiedOnly":true}`
	decideAnswer  = `{"flags":{},"featureFlags":{},"featureFlagPayloads":{},"errorsWhileComputingFlags":false,"config":{"enable_collect_everything":true},"supportedCompression":["gzip","gzip-js"],"sessionRecording":false,"siteApps":[],"toolbarParams":{},"isAuthenticated":false}`
	surveysAnswer = `{"surveys":[]}`
)

func (x *exchange) flags() *request.Problem  { x.json(http.StatusOK, flagsAnswer); return nil }
func (x *exchange) decide() *request.Problem { x.json(http.StatusOK, decideAnswer); return nil }

func (x *exchange) surveys() *request.Problem { x.json(http.StatusOK, surveysAnswer); return nil }

// recordings are taken and forgotten.
func (x *exchange) recordings() *request.Problem {
	x.success(http.StatusOK, `{"status":"Ok"}`)
	return nil
}

func (x *exchange) remoteConfig() *request.Problem { x.json(http.StatusOK, configAnswer); return nil }

// remoteConfigScript is the same for pages that load it as a script, under the key by
// which the SDK looks for it.
func (x *exchange) remoteConfigScript() *request.Problem {
	parts := x.parts()
	if project.CheckKey(parts[1]) != nil {
		return request.BadRequest("the key in the path is none")
	}
	key, _ := jsontext.AppendQuote(nil, parts[1])
	x.answer(http.StatusOK, "application/javascript; charset=utf-8",
		"(function(){var c=window._POSTHOG_REMOTE_CONFIG=window._POSTHOG_REMOTE_CONFIG||{};c["+string(key)+"]={config:"+configAnswer+",siteApps:[]};})();\n")
	return nil
}

func (x *exchange) health() *request.Problem { x.json(http.StatusOK, `{"status":"ok"}`); return nil }

func (x *exchange) ready() *request.Problem {
	if err := x.h.o.Ready(); err != nil {
		// Logged each time a probe of the native API is answered that events cannot be taken in.
		// To do: see what the error names.
		x.h.o.Log.WarnContext(x.R.Context(), "analytics is not ready", "error", err)
		x.json(http.StatusServiceUnavailable, `{"status":"unavailable"}`)
		return nil
	}
	x.json(http.StatusOK, `{"status":"ready"}`)
	return nil
}
