package crmsystem

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/connect/system"
	"github.com/tidemill/tidemill/state/deadletter"
	"github.com/tidemill/tidemill/state/deadletter/tabledeadletter"
	"github.com/tidemill/tidemill/state/ledger/tableledger"
	"github.com/tidemill/tidemill/state/profile"
	"github.com/tidemill/tidemill/state/profile/tableprofile"
	"github.com/tidemill/tidemill/state/queue/memoryqueue"
	"github.com/tidemill/tidemill/state/table/memorytable"
	"github.com/tidemill/tidemill/systems/crm"
	"github.com/tidemill/tidemill/systems/crm/crmconfig"
	"github.com/tidemill/tidemill/systems/crm/event"
	"github.com/tidemill/tidemill/systems/crm/handler"
	"github.com/tidemill/tidemill/systems/crm/priority"
	"github.com/tidemill/tidemill/systems/crm/webhook"
)

// rehearsal is the CRM system on stores in memory, which does not run. Its handlers note what they do.
type rehearsal struct {
	r        *system.Rehearsing
	own      *crmconfig.Settings
	sys      *crm.System
	profiles *tableprofile.Store[*memorytable.Tx]
	log      *tableledger.Ledger[*memorytable.Tx]
	made     uint64 // profiles

	called  string // the handler of the event; empty: none
	new     bool   // the event makes its profile
	changes []profile.Attribute
	request json.RawMessage
}

// rehearse says what would become of events: which are refused or skipped, which handler has an event,
// and what that changes in the profile, or asks an endpoint.
func rehearse(r *system.Rehearsing) (system.Rehearsal, error) {
	h := &rehearsal{r: r, own: crmconfig.Of(r.Config)}
	if err := h.stores(); err != nil {
		return nil, err
	}
	specs, err := h.handlers()
	if err != nil {
		return nil, err
	}
	letters, err := tabledeadletter.Memory(deadletter.Options{Now: r.Now})
	if err != nil {
		return nil, err
	}
	c := h.own
	priorities, err := priority.New(c.Priorities.Rules())
	if err != nil {
		return nil, err
	}
	h.sys, err = crm.New(crm.Parts{Queues: memoryqueue.New(memoryqueue.Options{Now: r.Now}), DeadLetters: letters, Log: h.log, Replays: tableledger.Memory(tableledger.Options{Now: r.Now}),
		Profiles: h.profiles, Handlers: specs},
		crm.Options{Attempts: c.Attempts, Unknown: unknown(c), Create: c.Create, Priorities: priorities, Now: r.Now})
	if err != nil {
		return nil, err
	}
	return system.OneByOne(h.event), nil
}

// stores makes sync log and profiles in one database, as they are where increments are allowed.
func (h *rehearsal) stores() error {
	db := memorytable.NewDB()
	entries, err := memorytable.New(db, tableledger.Spec(logName))
	if err != nil {
		return err
	}
	rows, err := memorytable.New(db, tableprofile.Spec())
	if err != nil {
		return err
	}
	h.log = tableledger.New(entries, tableledger.Options{Now: h.r.Now})
	h.profiles, err = tableprofile.New(rows, profile.Options{Now: h.r.Now, NewID: func() (id uuid.UUID) { // the same in each rehearsal
		h.made++
		binary.BigEndian.PutUint64(id[8:], h.made)
		return id
	}})
	return err
}

// handlers are those of the configuration. Attributes are changed in memory, and endpoints not asked.
func (h *rehearsal) handlers() (specs []handler.Spec, err error) {
	for n := range h.own.Handlers {
		one := &h.own.Handlers[n]
		spec := one.Spec()
		if one.Endpoint != nil {
			spec.Handler, err = h.endpoint(one)
		} else {
			spec.Handler, err = handler.AttributesIn(h.log, noting{h.profiles, h}, one.Attributes)
		}
		if err != nil {
			return nil, fmt.Errorf("handler %s: %w", one.Name, err)
		}
		spec.Handler = h.watched(spec.Name, spec.Handler)
		specs = append(specs, spec)
	}
	return specs, nil
}

// watched notes that a handler is called.
func (h *rehearsal) watched(name string, by handler.Handler) handler.Handler {
	return handler.Batch(func(ctx context.Context, calls []*handler.Call) error {
		h.called, h.new = name, calls[0].New
		return by.Handle(ctx, calls)
	})
}

// endpoint notes the request that an endpoint would get. It takes each event.
func (h *rehearsal) endpoint(one *crmconfig.Handler) (handler.Handler, error) {
	o, err := h.own.Endpoint(one)
	if err != nil {
		return nil, err
	}
	o.Now = h.r.Now
	e, err := webhook.New(o)
	if err != nil {
		return nil, err
	}
	return handler.Func(func(_ context.Context, c *handler.Call) error {
		shown, err := e.Show(c)
		if err != nil {
			return err
		}
		h.request, err = system.Request(shown)
		return err
	}), nil
}

// noting notes changes of profiles.
type noting struct {
	profile.Transactional[*memorytable.Tx]
	h *rehearsal
}

func (n noting) In(tx *memorytable.Tx) profile.Profiles {
	return notingIn{n.Transactional.In(tx), n.h}
}

type notingIn struct {
	profile.Profiles
	h *rehearsal
}

func (n notingIn) Update(ctx context.Context, changes []profile.Change) error {
	for _, c := range changes {
		n.h.changes = c.Attributes
	}
	return n.Profiles.Update(ctx, changes)
}

// event is what becomes of one.
func (h *rehearsal) event(ctx context.Context, in *system.Incoming) ([]system.End, error) {
	if len(in.With) > 0 {
		return nil, fmt.Errorf("with: a request of CRM says nothing beside its events")
	}
	h.called, h.new, h.changes, h.request = "", false, nil, nil
	if why := h.stranger(in.Body); why != "" {
		return []system.End{system.Refused(why)}, nil
	}
	is, err := h.sys.Rehearse(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	if is.Refused != nil {
		return []system.End{system.Refused(is.Refused.Error())}, nil
	}
	queued, err := system.JSON(map[string]any{"priority": is.Priority})
	if err != nil {
		return nil, err
	}
	ends := []system.End{{At: system.Itself, End: system.EndOf(is.Fate, is.Why), Output: queued}}
	if h.called == "" {
		return ends, nil
	}
	end := system.End{At: "handler " + h.called, End: ends[0].End, Output: h.request}
	if h.request == nil && is.Fate == tidemill.Delivered {
		if end.Output, err = h.changed(); err != nil {
			return nil, err
		}
	}
	return append(ends, end), nil
}

// stranger says why an event is of nobody whom the configuration knows; empty: it is.
func (h *rehearsal) stranger(raw []byte) string {
	var e event.Event
	if err := event.Decode(raw, &e); err != nil || len(h.own.Tenants) == 0 { // wrong events are refused later
		return ""
	}
	if slices.ContainsFunc(h.own.Tenants, func(t crmconfig.Tenant) bool { return t.ID == e.Tenant }) {
		return ""
	}
	return fmt.Sprintf("tenantId: there is no tenant %q", e.Tenant)
}

// changed is the change of a profile as an output.
func (h *rehearsal) changed() (json.RawMessage, error) {
	type change struct {
		Op    string          `json:"op"`
		Value json.RawMessage `json:"value,omitempty"`
	}
	all := map[string]change{}
	for _, a := range h.changes {
		all[a.Key] = change{a.Op.String(), a.Value}
	}
	return system.JSON(map[string]any{"newProfile": h.new, "attributes": all})
}
