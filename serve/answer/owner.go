package answer

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/tidemill/tidemill/serve/request"
	"github.com/tidemill/tidemill/state/project"
)

// Owner finds whose key a request brings, or says why it is nobody's. Of proxies that are
// trusted, it is believed whom they ask for.
func Owner(r *http.Request, keys *request.Keyring, trusted []netip.Prefix, log *slog.Logger) (request.Owner, *Problem) {
	key := request.Key(r)
	if key == "" {
		return request.Owner{}, Unauthorized("an API key is needed, as X-API-Key or Authorization: Bearer")
	}
	o, err := keys.Find(r.Context(), key)
	switch {
	case err == nil:
		return o, nil
	case errors.Is(err, project.ErrUnknown):
		keys.Refused(r.Context(), request.Address(r, trusted))
		return request.Owner{}, Unauthorized("the API key is not known")
	}
	log.WarnContext(r.Context(), "keys cannot be checked", "error", err)
	return request.Owner{}, Busy("keys cannot be checked now, please retry")
}
