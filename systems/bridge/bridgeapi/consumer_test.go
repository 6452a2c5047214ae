package bridgeapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidemill/tidemill/serve/api/operation"
)

func TestTheEmbeddedStreamHasNoConsumers(t *testing.T) {
	a, q := &API{}, &OneConsumer{Consumer: "gone"}
	_, looked := a.consumer(t.Context(), q)
	_, took := a.takeOver(t.Context(), q)
	for _, err := range []error{looked, took} {
		if p, ok := err.(*operation.Problem); !ok || p.Status != http.StatusNotFound || !strings.Contains(p.Detail, "has no consumers") {
			t.Errorf("it says %v", err)
		}
	}
}
