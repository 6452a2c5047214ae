package partnertest

import (
	"crypto"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Partial says what a partner with results for single messages does to some of them, by
// their number in the request.
type Partial struct {
	Refuse  map[int]string // with this code, in the partner's words
	Missing []int          // left out of the results, though accepted
}

var (
	hex64 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	whole = regexp.MustCompile(`^[0-9]+$`)
)

func (s *Server) partly() Partial {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.partial
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers as most APIs refuse a request.
func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, map[string]any{"error": map[string]any{"code": status, "message": fmt.Sprintf(format, args...)}})
}

// read decodes a body strictly: an unknown field is one that the partner does not have.
func read(r *http.Request, v any) error {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return fmt.Errorf("content type %q", r.Header.Get("Content-Type"))
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("more than one value")
	}
	return nil
}

// DV360 is the conversions service of Campaign Manager 360, with the token endpoint of its
// account at /token.
func DV360(t testing.TB) (*Server, ServiceAccount) {
	s := prepare(nil)
	var account ServiceAccount
	s.own = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_ = r.ParseForm()
			c, err := claims(r.PostForm.Get("assertion"), "RS256", func(signed, signature []byte) bool {
				sum := sha256.Sum256(signed)
				return rsa.VerifyPKCS1v15(account.public, crypto.SHA256, sum[:], signature) == nil
			})
			if err != nil || r.PostForm.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || c["iss"] != "robot@example.test" ||
				c["aud"] != s.URL+"/token" || c["scope"] != "https://www.googleapis.com/auth/ddmconversions" {
				answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
				return
			}
			s.token(w)
		case !s.knows(r):
			refuse(w, http.StatusUnauthorized, "invalid credentials")
		case r.Method != http.MethodPost || r.URL.Path != "/dfareporting/v5/userprofiles/42/conversions/batchinsert":
			refuse(w, http.StatusNotFound, "not found")
		default:
			s.conversions(w, r)
		}
	}
	s.http.StartTLS()
	s.begin(t)
	account = NewServiceAccount(t, s.URL+"/token")
	return s, account
}

type conversion struct {
	Kind, FloodlightActivityID, FloodlightConfigurationID, Ordinal string
	TimestampMicros, Quantity                                      string
	Value                                                          *float64
	Gclid, Dclid, MatchID, MobileDeviceID, EncryptedUserID         string
	AdUserDataConsent                                              string
}

func (c *conversion) wrong() string {
	ids := 0
	for _, id := range []string{c.Gclid, c.Dclid, c.MatchID, c.MobileDeviceID, c.EncryptedUserID} {
		if id != "" {
			ids++
		}
	}
	micros, err := strconv.ParseInt(c.TimestampMicros, 10, 64)
	switch {
	case !whole.MatchString(c.FloodlightActivityID) || !whole.MatchString(c.FloodlightConfigurationID):
		return "floodlightActivityId and floodlightConfigurationId are required"
	case c.Ordinal == "":
		return "ordinal is required"
	case err != nil || micros < 1e15 || micros > 1e16:
		return "timestampMicros is not in microseconds"
	case c.Value == nil || c.Quantity != "1":
		return "value and quantity are required"
	case ids != 1:
		return "exactly one user identifier is required"
	}
	return ""
}

func (s *Server) conversions(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Kind        string
		Conversions []conversion
	}
	if err := read(r, &in); err != nil || len(in.Conversions) == 0 || len(in.Conversions) > 1000 {
		refuse(w, http.StatusBadRequest, "invalid request: %v, %d conversions", err, len(in.Conversions))
		return
	}
	p, failures, status := s.partly(), false, []any{}
	for i, c := range in.Conversions {
		code, why := p.Refuse[i], "as the test wants it"
		if wrong := c.wrong(); wrong != "" && code == "" {
			code, why = "INVALID_ARGUMENT", wrong
		}
		one := map[string]any{"kind": "dfareporting#conversionStatus", "conversion": map[string]any{"ordinal": c.Ordinal}}
		if code != "" {
			failures = true
			one["errors"] = []any{map[string]any{"kind": "dfareporting#conversionError", "code": code, "message": why}}
		} else {
			s.take(c.Ordinal, true)
		}
		if !slices.Contains(p.Missing, i) {
			status = append(status, one)
		}
	}
	answer(w, http.StatusOK, map[string]any{"kind": "dfareporting#conversionsBatchInsertResponse", "hasFailures": failures, "status": status})
}

// TradeDesk accepts real-time conversion events of the advertiser adv1 with the tracker trk1 or
// the pixel pix1. It does not de-duplicate.
func TradeDesk(t testing.TB) *Server {
	s := prepare(nil)
	s.own = func(w http.ResponseWriter, r *http.Request) {
		type item struct {
			ItemCode string `json:"item_code"`
			Name     string `json:"name"`
			Qty      int    `json:"qty"`
			Price    float64
			Cat      string
		}
		var in struct {
			Data []struct {
				Adv, Currency, Value, Adid, Td1 string
				Tracker                         string `json:"tracker_id"`
				Pixel                           string `json:"upixel_id"`
				Name                            string `json:"event_name"`
				Order                           string `json:"order_id"`
				Referrer                        string `json:"referrer_url"`
				Type                            string `json:"adid_type"`
				IP                              string `json:"client_ip"`
				Items                           []item
			}
		}
		if r.URL.Path != "/track/realtimeconversion" || r.Method != http.MethodPost {
			refuse(w, http.StatusNotFound, "not found")
			return
		}
		if err := read(r, &in); err != nil || len(in.Data) != 1 {
			refuse(w, http.StatusBadRequest, "invalid request: %v", err)
			return
		}
		d := in.Data[0]
		_, notNumber := strconv.ParseFloat(d.Value, 64)
		switch {
		case d.Adv != "adv1" || (d.Tracker == "trk1") == (d.Pixel == "pix1"):
			refuse(w, http.StatusPaymentRequired, "the tag is not defined")
		case d.Name == "" || d.Name == "purchase" && (d.Currency == "" || notNumber != nil):
			refuse(w, http.StatusBadRequest, "event_name, and for purchases currency and value, are required")
		case d.Adid != "" && !slices.Contains([]string{"TDID", "UID2", "EUID", "IDFA", "AAID", "DAID", "NAID", "IDL"}, d.Type):
			refuse(w, http.StatusBadRequest, "adid_type %q", d.Type)
		case d.Adid == "" && d.Referrer == "":
			refuse(w, http.StatusBadRequest, "an identifier or referrer_url is required")
		default:
			s.take(d.Td1, false)
			answer(w, http.StatusOK, map[string]any{"message": "ok"})
		}
	}
	s.http.StartTLS()
	s.begin(t)
	return s
}

// Yahoo accepts conversions of the pixel 10012345, with the token endpoint at /token for the
// client yahoo-client and its secret.
func Yahoo(t testing.TB, secret string) *Server {
	s := prepare(nil)
	s.own = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_ = r.ParseForm()
			c, err := claims(r.PostForm.Get("client_assertion"), "HS256", func(signed, signature []byte) bool {
				mac := hmac.New(sha256.New, []byte(secret))
				mac.Write(signed)
				return hmac.Equal(mac.Sum(nil), signature)
			})
			if err != nil || r.PostForm.Get("grant_type") != "client_credentials" || c["sub"] != "yahoo-client" || c["aud"] != s.URL+"/token?realm=dsp" || c["jti"] == "" {
				answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
				return
			}
			s.token(w)
		case !s.knows(r):
			refuse(w, http.StatusUnauthorized, "invalid token")
		case r.URL.Path != "/v1/events/10012345" || r.Method != http.MethodPost:
			refuse(w, http.StatusNotFound, "not found")
		default:
			s.yahooEvents(w, r)
		}
	}
	s.http.StartTLS()
	s.begin(t)
	return s
}

func (s *Server) yahooEvents(w http.ResponseWriter, r *http.Request) {
	var in []struct {
		EventTS                                                    int64 `json:"eventTs"`
		EventName, EventID, ActionSource, ActionSourceURL, Country string
		UserData                                                   struct {
			Email, Phone, Idfa, Gpsaid, Pxid []string
			IP                               string `json:"ip_address"`
			UserAgent                        string
		}
		EventData struct {
			Price           float64
			CustomKeyValues map[string]string
		}
		ClickData struct{ Vmcid string }
	}
	if err := read(r, &in); err != nil || len(in) == 0 {
		refuse(w, http.StatusBadRequest, "invalid request: %v", err)
		return
	}
	result := "COMPLETE"
	for _, e := range in {
		ids := len(e.UserData.Email) + len(e.UserData.Phone) + len(e.UserData.Idfa) + len(e.UserData.Gpsaid) + len(e.UserData.Pxid) + len(e.ClickData.Vmcid)
		bad := e.EventTS < 1e9 || e.EventName == "" || e.ActionSource == "" || ids == 0
		for _, h := range slices.Concat(e.UserData.Email, e.UserData.Phone) {
			bad = bad || !hex64.MatchString(h)
		}
		if bad {
			result = "PARTIAL"
			continue
		}
		s.take(e.EventID, true)
	}
	answer(w, http.StatusOK, map[string]any{"success": result, "message": ""})
}

// Amazon accepts events of the account amzn1.account, with the token endpoint at /token for the
// client amazon-client and the refresh token Atzr|refresh. base is the first index of its
// results, 0 or 1.
func Amazon(t testing.TB, base int) *Server {
	s := prepare(nil)
	s.own = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			_ = r.ParseForm()
			want := url.Values{"grant_type": {"refresh_token"}, "client_id": {"amazon-client"}, "client_secret": {"amazon-secret"}, "refresh_token": {"Atzr|refresh"}}
			if r.PostForm.Encode() != want.Encode() {
				answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
				return
			}
			s.token(w)
		case !s.knows(r):
			refuse(w, http.StatusUnauthorized, "invalid token")
		case r.Header.Get("Amazon-Advertising-API-ClientId") != "amazon-client" || r.Header.Get("Amazon-Ads-AccountId") != "amzn1.account":
			refuse(w, http.StatusForbidden, "the account is not yours")
		case r.URL.Path != "/events/v1" || r.Method != http.MethodPost:
			refuse(w, http.StatusNotFound, "not found")
		default:
			s.amazonEvents(w, r, base)
		}
	}
	s.http.StartTLS()
	s.begin(t)
	return s
}

func (s *Server) amazonEvents(w http.ResponseWriter, r *http.Request, base int) {
	var in struct {
		IngestionMethod string
		EventData       []struct {
			Name, EventType, EventActionSource, CountryCode, Timestamp, ClientDedupeID, CurrencyCode string
			Value                                                                                    float64
			UnitsSold                                                                                int
			MatchKeys                                                                                []struct {
				Type   string
				Values []string
			}
			CustomAttributes []struct{ Name, DataType, Value string }
		}
	}
	if err := read(r, &in); err != nil || len(in.EventData) == 0 || len(in.EventData) > 500 || in.IngestionMethod != "SERVER_TO_SERVER" {
		refuse(w, http.StatusBadRequest, "invalid request: %v", err)
		return
	}
	p := s.partly()
	success, failed := []any{}, []any{}
	for i, e := range in.EventData {
		_, err := time.Parse(time.RFC3339, e.Timestamp)
		code := p.Refuse[i]
		bad := err != nil || e.Name == "" || len(e.CountryCode) != 2 || len(e.MatchKeys) == 0
		for _, k := range e.MatchKeys {
			bad = bad || len(k.Values) != 1 || k.Type != "MAID" && !hex64.MatchString(k.Values[0])
		}
		if bad && code == "" {
			code = "400"
		}
		if code == "" {
			s.take(e.ClientDedupeID, true)
		}
		if slices.Contains(p.Missing, i) {
			continue
		}
		if code != "" {
			failed = append(failed, map[string]any{"index": i + base, "httpStatusCode": code, "subErrors": []any{map[string]any{"errorMessage": "as it is"}}})
		} else {
			success = append(success, map[string]any{"index": i + base, "message": "ok"})
		}
	}
	answer(w, http.StatusMultiStatus, map[string]any{"success": success, "error": failed})
}

// Webhook is a receiver of Standard Webhooks that knows some keys (after whsec_, base64) and
// accepts timestamps within five minutes of now.
func Webhook(t testing.TB, now func() time.Time, secrets ...string) *Server {
	s := prepare(nil)
	s.own = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, at := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil || id == "" || now().Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
			refuse(w, http.StatusBadRequest, "webhook-id or webhook-timestamp")
			return
		}
		for signature := range strings.FieldsSeq(r.Header.Get("webhook-signature")) {
			for _, secret := range secrets {
				key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
				mac := hmac.New(sha256.New, key)
				mac.Write([]byte(id + "." + at + "." + string(body)))
				if signature == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
					s.take(id, true)
					w.WriteHeader(http.StatusNoContent)
					return
				}
			}
		}
		refuse(w, http.StatusUnauthorized, "no signature of ours")
	}
	s.http.StartTLS()
	s.begin(t)
	return s
}

// Accept is a partner that accepts everything.
func Accept(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"status": "ok"})
}
