// Package partner turns the description of a partner into a sink. Use it for every destination
// of the delivery system. What to send, where, with which credentials, and how to read the
// answer are data. So are the partners that come with the product (Preset).
//
//	p := partner.Partner{Name: "dv360", Preset: "dv360", Settings: map[string]string{...}}
//	built, err := p.Build(partner.Env{Secret: secrets})
//
// Fields of a request and the rules for answers are expressions (package expr-lang/expr) over
// the event and over the answer. They are compiled and checked when the partner is built, have
// no loops, and see only what they are given.
package partner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/state/queue"
)

// Partner describes a destination. With a Preset, what is set here replaces what the preset
// says.
type Partner struct {
	Name     string `yaml:"name" help:"letters, digits, - and _; its queue is s2s.<name>"`
	Preset   string `yaml:"preset" main:"true" help:"the name of one that the product knows, such as generic: tidemill config reference delivery.partners lists them; empty: generic"`
	Endpoint string `yaml:"endpoint" main:"true" help:"https URL; {name} is a setting"`
	Method   string `yaml:"method" help:"empty: POST"`
	Auth     Auth   `yaml:"auth" help:"how the partner knows us"`

	When   string   `yaml:"when" main:"true" help:"expression over the event: whether it is for this partner; empty: every event is"`
	Sites  []string `yaml:"sites" main:"true" help:"only their events; empty: those of all"`
	Vendor string   `yaml:"vendor" help:"its number in the TCF's list: where an event names vendors it must be allowed; empty: not asked"`

	Workers  int            `yaml:"workers" help:"requests at once, at most; 0: what the system says"`
	Ordered  bool           `yaml:"ordered" help:"strict order per key (user, device or session)"`
	Lease    time.Duration  `yaml:"lease" help:"visibility timeout of its queue; 0: 30s"`
	Breaker  Breaker        `yaml:"breaker" help:"when its queue is left alone"`
	Queue    Queue          `yaml:"queue" help:"how much waits for it, and for how long"`
	OffAfter *time.Duration `yaml:"offAfter" help:"for how long it has to fail, without a single delivery, to be switched off: its queue is paused, and new events are not queued for it until somebody closes its circuit. Left out: 7 days; 0: it never is"`
	Once     Once           `yaml:"once" help:"what is sent under the ledger's guard, so that it is not sent twice after a crash: all, none; empty: purchases and conversions"`

	Headers   map[string]string `yaml:"headers" help:"{name} is a setting"`
	KeyHeader string            `yaml:"keyHeader" help:"carries the idempotency key; empty: Idempotency-Key; \"-\": not sent"`
	Settings  map[string]string `yaml:"settings" help:"of the account at the partner"`
	Needs     []string          `yaml:"needs" help:"settings that must be there; a|b: one of them"`

	RateLimit  RateLimit     `yaml:"rateLimit" help:"how many requests it takes"`
	Timeout    time.Duration `yaml:"timeout" main:"true" help:"of a request; 0: 3s"`
	MaxRetries *int          `yaml:"maxRetries" help:"after the first try; left out: 7"`
	Waits      Waits         `yaml:"retry" help:"between tries"`
	AtOnce     int           `yaml:"atOnce" help:"events that are out at once, of all instances; 0: no limit"`
	Batch      Batch         `yaml:"batch" help:"how events go into one request"`

	Fields     []string `yaml:"fields" help:"of events, beside the known ones, that expressions may use"`
	Mapping    []Field  `yaml:"mapping" help:"of the request's body; empty: the event, byte for byte"`
	Dedup      string   `yaml:"dedup" help:"the field of Mapping by which the partner de-duplicates; empty: it does not"`
	Idempotent *bool    `yaml:"idempotent" help:"the partner does a thing once, however often it is sent. Without it a message whose answer was lost is of kind unknown"`

	Success  string    `yaml:"success" help:"of an answer 2xx: was it taken? Empty: it was"`
	Outcomes []Outcome `yaml:"outcomes" help:"what other answers mean; the first that fits"`
	Items    Items     `yaml:"items" help:"what became of each message of a request"`

	AllowPrivate []string `yaml:"allowPrivate" help:"networks that may be reached though they are private, e.g. 10.1.0.0/16"`
	AllowHTTP    bool     `yaml:"allowHttp" help:"http is allowed too"`
	Proxy        bool     `yaml:"proxy" help:"the proxy of the environment is used"`
}

// Breaker says when the partner's queue is left alone. The zero value: after 5 failures in
// a row, for 30s.
type Breaker struct {
	Fails int           `yaml:"fails" help:"failures in a row that open it; 0: 5, or none where there is a rate"`
	Rate  float64       `yaml:"rate" help:"share of failures that opens it, above 0 to 1, of at least 20 requests in 10s; 0: not by this"`
	Open  time.Duration `yaml:"open" help:"nothing is tried for so long; 0: 30s"`
}

// Policy is the breaker in the engine's form.
func (b Breaker) Policy() policy.Breaker {
	p := policy.Breaker{Fails: b.Fails, Rate: b.Rate, Open: b.Open}
	if p.Fails == 0 && p.Rate == 0 {
		p.Fails = 5
	}
	return p
}

// Queue bounds what waits for a partner, so that one that is down delays no other. The zero
// value: as many jobs as the system says, and jobs that find no room are held, for any time.
type Queue struct {
	Jobs int  `yaml:"jobs" help:"about how many may wait; 0: what the system says"`
	Full Full `yaml:"full" help:"what happens when so many wait: hold, dead_letter or drop_oldest"`

	MaxAge          time.Duration `yaml:"maxAge" help:"how old a job may be, since its event was routed; an older one is skipped; 0: any"`
	MaxAgePurchases time.Duration `yaml:"maxAgePurchases" help:"the same of purchases and conversions"`
}

// Full says what happens to events that find no room in a partner's queue.
type Full string

// The policies.
const (
	Hold       Full = ""            // new jobs are parked beside the queue, and go into it when there is room, in their order
	DeadLetter Full = "dead_letter" // new jobs become dead letters
	DropOldest Full = "drop_oldest" // the oldest jobs are removed, and counted
)

// UnmarshalText takes a policy by its name; "hold" is the zero value.
func (f *Full) UnmarshalText(b []byte) error {
	*f = Full(b)
	if *f == "hold" {
		*f = Hold
	}
	return nil
}

func (q *Queue) check() error {
	switch {
	case q.Jobs < 0:
		return fmt.Errorf("queue: jobs %d is below zero", q.Jobs)
	case q.Full != Hold && q.Full != DeadLetter && q.Full != DropOldest:
		return fmt.Errorf("queue: full %q: want hold, %s or %s", q.Full, DeadLetter, DropOldest)
	case q.MaxAge < 0 || q.MaxAgePurchases < 0:
		return errors.New("queue: a largest age below zero; 0 is none")
	}
	return nil
}

// offAfter is how long a partner fails before it is switched off, by default.
const offAfter = 7 * 24 * time.Hour

// SwitchedOffAfter is how long the partner has to fail to be switched off; 0: it never is.
func (p *Partner) SwitchedOffAfter() time.Duration {
	if p.OffAfter == nil {
		return offAfter
	}
	return *p.OffAfter
}

// Waits are the times between tries. Zero fields: 1s, doubling, to 64s, each ±25%.
type Waits struct {
	Base   time.Duration `yaml:"base" help:"after the first failure"`
	Factor float64       `yaml:"factor" help:"by which each is longer"`
	Max    time.Duration `yaml:"max" help:"none is longer"`
	Jitter float64       `yaml:"jitter" help:"share of a wait that chance adds or takes"`
}

// Once says which messages are sent once. Before the request an entry is written to a ledger,
// so that a crash between the partner's answer and its recording is noticed. It costs two
// writes a message.
type Once string

// What may be sent once.
const (
	Purchases Once = ""     // purchases and conversions
	All       Once = "all"  // every event
	Nothing   Once = "none" // the partner's de-duplication is enough
)

// RateLimit is how many requests a partner takes within any span of a window's length. A tenth
// of them may go at once after a rest; the others come evenly.
type RateLimit struct {
	Requests int `yaml:"requests" help:"0: no limit"`
	Window   int `yaml:"window" help:"seconds; 0: 1"`
}

// Batch says how messages go into one request.
type Batch struct {
	Items   int    `yaml:"items" help:"at most; 0: 1"`
	Bytes   int    `yaml:"bytes" help:"of the body; 0: 1 MiB"`
	Head    string `yaml:"head" help:"before the first"`
	Between string `yaml:"between" help:"empty: a comma, where Items is above 1"`
	Tail    string `yaml:"tail" help:"after the last"`
}

// Field is one field of the request's body.
type Field struct {
	Field    string `yaml:"field" help:"a dot goes into an object: user.email"`
	Value    string `yaml:"value" help:"expression; nil leaves the field out. Empty: removes the preset's field"`
	Required bool   `yaml:"required" help:"without a value the message is invalid"`
}

// Outcome says what an answer means.
type Outcome struct {
	When string `yaml:"when" help:"expression over status, body (decoded) and raw (its text), and in Items over item and index"`
	Kind string `yaml:"kind" help:"of failure, or delivered"`
	Why  string `yaml:"why" help:"in words"`
}

// Items says how to read the outcome of each message of a request. Without List the answer
// stands for all of them.
type Items struct {
	List     string    `yaml:"list" help:"expression over body: the results"`
	ID       string    `yaml:"id" help:"expression over item: the message's Dedup value"`
	Index    string    `yaml:"index" help:"expression over item: the message's number. Without ID and Index the results are in order"`
	Base     string    `yaml:"base" help:"of Index: 0, 1, or auto, which finds out by the first or last"`
	Failed   string    `yaml:"failed" help:"expression over item: is it a failure?"`
	Outcomes []Outcome `yaml:"outcomes" help:"of a failed item; the first that fits. None: validation"`
}

// Retry is the partner's retry: 1, 2, 4 … 64 s, each ±25%, by default.
func (p Partner) Retry() policy.Retry {
	r := policy.Partner
	if p.MaxRetries != nil {
		r.Tries = *p.MaxRetries
	}
	r.Base, r.Factor = cmp.Or(p.Waits.Base, r.Base), cmp.Or(p.Waits.Factor, r.Factor)
	r.Max, r.Spread = cmp.Or(p.Waits.Max, r.Max), cmp.Or(p.Waits.Jitter, r.Spread)
	return r
}

// Limiter is the partner's rate limit.
func (p Partner) Limiter() policy.Limiter {
	if p.RateLimit.Requests == 0 {
		return policy.Limiter{}
	}
	burst := max(p.RateLimit.Requests/10, 1)
	return policy.Limiter{Rate: float64(p.RateLimit.Requests-burst+1) / float64(max(p.RateLimit.Window, 1)), Burst: burst}
}

// Limit is how much of the partner's queue is handed out: a request may have several messages.
func (p Partner) Limit() queue.Limit {
	l := queue.Limit{AtOnce: p.AtOnce}
	if rate := p.Limiter(); rate.Rate > 0 {
		items := max(p.Batch.Items, 1)
		l.PerSecond, l.Burst = rate.Rate*float64(items), rate.Burst*items
	}
	return l
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// check refuses nonsense that shows without expressions, URLs or secrets.
func (p *Partner) check() error {
	switch {
	case !nameForm.MatchString(p.Name):
		return fmt.Errorf("the name %q is not 1 to 64 of A-Z a-z 0-9 _ -", p.Name)
	case p.Endpoint == "":
		return errors.New("it has no endpoint")
	case p.RateLimit.Requests < 0 || p.RateLimit.Window < 0:
		return errors.New("rateLimit: a number below zero")
	case p.RateLimit.Window > 0 && p.RateLimit.Requests == 0:
		return errors.New("rateLimit: a window without requests")
	case p.Once != Purchases && p.Once != All && p.Once != Nothing:
		return fmt.Errorf("once %q: want %q, %q, or nothing for purchases and conversions", p.Once, All, Nothing)
	case p.AtOnce < 0:
		return fmt.Errorf("atOnce %d is below zero", p.AtOnce)
	case p.Workers < 0 || p.Workers > 1000:
		return fmt.Errorf("workers %d is not between 0 and 1000", p.Workers)
	case p.Lease != 0 && (p.Lease < time.Second || p.Lease > time.Hour):
		return fmt.Errorf("lease %v is not between 1s and 1h", p.Lease)
	case p.Timeout != 0 && (p.Timeout < 10*time.Millisecond || p.Timeout > 10*time.Minute):
		return fmt.Errorf("timeout %v is not between 10ms and 10m", p.Timeout)
	case p.MaxRetries != nil && (*p.MaxRetries < 0 || *p.MaxRetries > 100):
		return fmt.Errorf("maxRetries %d is not between 0 and 100", *p.MaxRetries)
	case p.Batch.Items < 0 || p.Batch.Items > 10000 || p.Batch.Bytes < 0:
		return errors.New("batch: items are not between 0 and 10000, or bytes below zero")
	case p.Batch.Items > 1 && p.Batch.Head+p.Batch.Tail == "" && p.Batch.Between == "":
		return errors.New("batch: several messages need an envelope (head, between, tail), such as [ and ]")
	case p.Items.List == "" && (p.Items.ID != "" || p.Items.Index != "" || p.Items.Failed != "" || p.Items.Outcomes != nil):
		return errors.New("items: there is no list to look at")
	case p.Items.List != "" && p.Items.Failed == "":
		return errors.New("items: failed does not say what a failure is")
	case p.Items.ID != "" && p.Items.Index != "":
		return errors.New("items: id and index exclude each other")
	case p.Items.ID != "" && p.Dedup == "":
		return errors.New("items: id needs dedup, the field that the partner's id is of")
	case !slices.Contains([]string{"", "0", "1", "auto"}, p.Items.Base):
		return fmt.Errorf("items: base %q is none of 0, 1 and auto", p.Items.Base)
	case p.Dedup != "" && len(p.Mapping) > 0 && !slices.ContainsFunc(p.Mapping, func(f Field) bool { return f.Field == p.Dedup }):
		return fmt.Errorf("dedup: the mapping has no field %q", p.Dedup)
	}
	if d := p.SwitchedOffAfter(); d != 0 && d < time.Minute {
		return fmt.Errorf("offAfter %v is below a minute; 0 is never", d)
	}
	if err := p.Queue.check(); err != nil {
		return err
	}
	retry := p.Retry()
	for _, c := range []interface{ Check() error }{p.Breaker.Policy(), retry, &queue.Settings{Limit: p.Limit()}} {
		if err := c.Check(); err != nil {
			return err
		}
	}
	if p.Waits.Base > retry.Max {
		return fmt.Errorf("retry: base %v is longer than max %v, and no wait is longer than that", p.Waits.Base, retry.Max)
	}
	for _, need := range p.Needs {
		if !slices.ContainsFunc(strings.Split(need, "|"), func(name string) bool { return p.Settings[name] != "" }) {
			return fmt.Errorf("settings.%s is missing", strings.ReplaceAll(need, "|", " or settings."))
		}
	}
	return nil
}

func (p *Partner) allowed() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, s := range p.AllowPrivate {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("allowPrivate: %q is no network such as 10.1.0.0/16", s)
		}
		all = append(all, prefix)
	}
	return all, nil
}

// over puts the values of p over a preset.
func (p Partner) over(preset Partner) Partner {
	set(&p.Endpoint, preset.Endpoint)
	set(&p.Method, preset.Method)
	set(&p.KeyHeader, preset.KeyHeader)
	set(&p.Dedup, preset.Dedup)
	set(&p.Success, preset.Success)
	set(&p.Timeout, preset.Timeout)
	set(&p.RateLimit, preset.RateLimit)
	set(&p.MaxRetries, preset.MaxRetries)
	set(&p.Idempotent, preset.Idempotent)
	set(&p.Batch.Items, preset.Batch.Items)
	set(&p.Batch.Bytes, preset.Batch.Bytes)
	set(&p.Batch.Head, preset.Batch.Head)
	set(&p.Batch.Between, preset.Batch.Between)
	set(&p.Batch.Tail, preset.Batch.Tail)
	set(&p.When, preset.When)
	set(&p.Vendor, preset.Vendor)
	set(&p.Workers, preset.Workers)
	set(&p.Lease, preset.Lease)
	set(&p.Breaker, preset.Breaker)
	set(&p.Queue, preset.Queue)
	set(&p.OffAfter, preset.OffAfter)
	set(&p.Waits, preset.Waits)
	set(&p.AtOnce, preset.AtOnce)
	set(&p.Once, preset.Once)
	p.Auth = p.Auth.over(preset.Auth)
	p.Headers = merged(preset.Headers, p.Headers)
	p.Settings = merged(preset.Settings, p.Settings)
	p.Needs = slices.Concat(preset.Needs, p.Needs)
	p.Fields = slices.Concat(preset.Fields, p.Fields)
	p.Outcomes = slices.Concat(p.Outcomes, preset.Outcomes) // the first that fits
	if p.Items.List == "" {
		p.Items = preset.Items
	}
	fields := slices.Clone(preset.Mapping)
	for _, f := range p.Mapping {
		at := slices.IndexFunc(fields, func(o Field) bool { return o.Field == f.Field })
		if at < 0 {
			fields = append(fields, f)
		} else {
			fields[at] = f
		}
	}
	p.Mapping = slices.DeleteFunc(fields, func(f Field) bool { return f.Value == "" })
	return p
}

func set[T comparable](v *T, preset T) {
	var zero T
	if *v == zero {
		*v = preset
	}
}

func merged(a, b map[string]string) map[string]string {
	m := maps.Clone(a)
	if m == nil {
		m = map[string]string{}
	}
	maps.Copy(m, b)
	return m
}

// kindNamed reads the kind of an Outcome. Delivered is not a failure.
func kindNamed(name string) (tidemill.Kind, error) {
	if name == "delivered" {
		return tidemill.NoKind, nil
	}
	k, err := tidemill.ParseKind(name)
	if err != nil || k == tidemill.NoKind {
		return 0, fmt.Errorf("kind %q: want delivered, validation, business, timeout, rate_limit, partner_error, credentials or unknown", name)
	}
	return k, nil
}
