package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/flow"
	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/admin"
	"github.com/tidemill/tidemill/serve/answer"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/caller"
	"github.com/tidemill/tidemill/state/description"
	"github.com/tidemill/tidemill/state/instance"
)

// described is what instances share of the configuration beside their files.
type described struct {
	store description.Store // nil: nothing keeps any
	kept  atomic.Pointer[description.Kept]
	at    atomic.Pointer[instance.Described]
	tried time.Time                   // when the last version was looked at; its owner has the turn of reloads
	beat  func(context.Context) error // says to the others how this instance stands
}

const changeAt = 5 // others that change something at the same time are waited for so often

// beDescribed reads the descriptions that instances share, and has them in force before anything runs.
func (i *Instance) beDescribed(ctx context.Context) (err error) {
	d := &i.shared
	d.kept.Store(&description.Kept{})
	d.at.Store(&instance.Described{})
	if d.store, err = i.Descriptions(ctx); err != nil || d.store == nil {
		return err
	}
	if err := i.follow(ctx); err != nil {
		return err
	}
	if refused := d.at.Load().Refused; refused != "" {
		return fmt.Errorf("of what the database describes (an entry of the file with the same name wins, and `tidemill partner remove`, site remove and handler remove take it away where an instance runs): %s", refused)
	}
	// Logged at the start, where partners, sites and handlers may be described in a database.
	i.Log.InfoContext(ctx, "changes of descriptions are learned of", "detail", d.store.Told())
	i.Loops = append(i.Loops, flow.Loop{Name: "descriptions", Every: lookPause, Do: i.awaitDescriptions})
	i.checks = append(i.checks, i.findRefused)
	return nil
}

// findRefused is what doctor finds where others have changed something that is not in force here.
func (i *Instance) findRefused(context.Context) []preflight.Finding {
	refused := i.shared.at.Load().Refused
	if refused == "" {
		return nil
	}
	return []preflight.Finding{{Check: "descriptions", Verdict: preflight.Warn, Detail: "what the database describes is not in force in this instance: " + refused,
		Advice: "Give this instance what it lacks, and reload it; or change or remove the description. It is tried again every 30 seconds."}}
}

// enter says to other instances that this one is about to run, and by what: one that changes something
// from now on waits for it. What was changed until then is in force when it returns.
func (i *Instance) enter(ctx context.Context) error {
	d := &i.shared
	if d.store == nil || d.beat == nil {
		return nil
	}
	if err := d.beat(ctx); err != nil {
		return err
	}
	if err := i.follow(ctx); err != nil {
		return err
	}
	if refused := d.at.Load().Refused; refused != "" {
		return errors.New(refused)
	}
	return nil
}

// withDescriptions is a configuration with those of the systems that run here.
func (i *Instance) withDescriptions(c *config.Loaded, kept description.Kept) (*config.Loaded, error) {
	var all []config.Stored
	for _, d := range kept.All {
		if slices.Contains(i.options.Systems, groupOf(d.List)) {
			all = append(all, config.Stored{List: d.List, Name: d.Name, Text: d.Text})
		}
	}
	return c.WithStored(all)
}

// checked is a configuration in force with other descriptions, which the systems could start with.
func (i *Instance) checked(kept description.Kept) (*config.Loaded, error) {
	next, err := i.withDescriptions(i.InForce(), kept)
	if err != nil {
		return nil, err
	}
	return next, i.table.Check(next, i.options.Systems)
}

// changes are what another configuration changes that is in force next.
func (i *Instance) changes(next *config.Loaded) (done api.Reload) {
	done.Applied, done.Restart = []api.SettingChange{}, []api.SettingChange{}
	for _, c := range i.InForce().Changes(next) {
		done.Applied = append(done.Applied, shownChange(&c))
	}
	return done
}

// offerDescriptions has the API show and change descriptions.
func (i *Instance) offerDescriptions(api *admin.Parts) {
	if i.shared.store == nil {
		return
	}
	api.Describe, api.Described, api.This.Described = i.describe, i.listDescribed, func() instance.Described { return *i.shared.at.Load() }
}

// listDescribed are all that are in force here.
func (i *Instance) listDescribed() (all []api.Description, err error) {
	kept := i.shared.kept.Load()
	for _, e := range i.InForce().Elements() {
		if !slices.Contains(i.options.Systems, groupOf(e.List)) {
			continue
		}
		d, err := shownDescription(&e, kept)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// shownDescription is an element as the API shows it.
func shownDescription(e *config.Element, kept *description.Kept) (out api.Description, err error) {
	out = api.Description{Kind: e.Kind, Name: e.Name, From: e.From}
	if n := indexOf(kept, e.List, e.Name); n >= 0 && e.From == config.FromDatabase {
		d := &kept.All[n]
		out.ETag, out.Changed, out.By = fmt.Sprint(d.Version), answer.When(d.Changed.UTC()), d.By
	}
	if out.Is, err = e.Shown(); err == nil {
		out.Given, err = e.Given()
	}
	return out, err
}

func indexOf(kept *description.Kept, list, name string) int {
	return slices.IndexFunc(kept.All, func(d description.Description) bool { return d.List == list && d.Name == name })
}

// describe makes, changes or removes what the database describes: prepared here first, so that nothing
// is kept that cannot work, and in force here when it returns.
func (i *Instance) describe(ctx context.Context, c *admin.DescriptionChange) (done *admin.DescriptionDone, err error) {
	end, err := i.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if !i.ready.on.Load() {
		return nil, operation.Refuse(http.StatusServiceUnavailable, "nothing was changed: the instance is starting or stopping; try again")
	}
	for range changeAt {
		if done, err = i.describeOnce(ctx, c); !errors.Is(err, description.ErrChanged) {
			return done, err
		}
	}
	return nil, operation.Refuse(http.StatusConflict, "nothing was changed: others change descriptions at the same time; try again")
}

// describeOnce is description.ErrChanged where others were first.
func (i *Instance) describeOnce(ctx context.Context, c *admin.DescriptionChange) (*admin.DescriptionDone, error) {
	kept, err := i.shared.store.List(ctx)
	if err != nil {
		return nil, answer.Busy(err)
	}
	list, err := i.listFor(c)
	if err != nil {
		return nil, err
	}
	d, next, err := i.changed(ctx, c, list, &kept)
	if err != nil {
		return nil, err
	}
	out := &admin.DescriptionDone{System: groupOf(list), Changes: i.changes(next).Applied}
	if out.Before, err = find(i.InForce(), i.shared.kept.Load(), list, c.Name); err != nil {
		return nil, err
	}
	if out.Before == nil && c.Remove { // this instance could not have it in force
		out.Before = &api.Description{Kind: c.Kind, Name: c.Name, From: config.FromDatabase, Is: []byte("null"), Given: []byte("null")}
	}
	if c.Check {
		out.After, err = find(next, &kept, list, c.Name)
		return out, err
	}
	ready, err := i.prepare(ctx, next)
	if err != nil {
		return nil, i.mistaken(c, operation.Refuse(http.StatusConflict, "nothing was changed: %v", err), err)
	}
	if c.Remove {
		kept.Version, err = i.shared.store.Remove(ctx, list, c.Name, kept.Version)
	} else {
		kept.Version, err = i.shared.store.Put(ctx, *d, kept.Version)
		d.Version = kept.Version
	}
	if err != nil {
		undo(ready)
		return nil, wrongDescription(err)
	}
	i.commit(ctx, next, ready, i.changes(next))
	out.Version = kept.Version
	if err := i.has(ctx, kept); err != nil { // the others see it by themselves
		// Logged when a description was stored and put in force here, and that could not be noted for
		// the others.
		// To do: nothing: they see it by themselves within seconds, if their database answers.
		i.Log.WarnContext(ctx, "other instances were not told of a description", "error", err)
	}
	out.After, err = find(next, &kept, list, c.Name)
	return out, err
}

// wrongDescription is an error of the store for who asked.
func wrongDescription(err error) error {
	switch {
	case errors.Is(err, description.ErrChanged):
		return err
	case errors.Is(err, description.ErrFull):
		return operation.Refuse(http.StatusConflict, "nothing was changed: %v", err)
	}
	return answer.Busy(err)
}

// listFor is the list that a change is of, where it can be changed here.
func (i *Instance) listFor(c *admin.DescriptionChange) (string, error) {
	is := i.InForce()
	list := is.ListOf(c.Kind)
	if list == "" {
		return "", operation.Refuse(http.StatusNotFound, "there are descriptions of: %s", strings.Join(is.Kinds(), ", "))
	}
	if !slices.Contains(i.options.Systems, groupOf(list)) {
		return "", operation.Refuse(http.StatusConflict, "nothing was changed: %s does not run in this instance, which cannot check a %s: ask one where it runs", groupOf(list), c.Kind)
	}
	if e, there := is.Named(list, c.Name); there && e.From != config.FromDatabase {
		return "", operation.Refuse(http.StatusConflict, "nothing was changed: the %s %s stands in the file of this instance (%s), which wins and is read-only here: change it there, and reload", c.Kind, c.Name, e.From)
	}
	return list, nil
}

func groupOf(list string) string {
	group, _, _ := strings.Cut(list, ".")
	return group
}

// changed makes a change in kept, and the configuration with it.
func (i *Instance) changed(ctx context.Context, c *admin.DescriptionChange, list string, kept *description.Kept) (*description.Description, *config.Loaded, error) {
	n := indexOf(kept, list, c.Name)
	var was []byte
	switch {
	case c.Add && n >= 0:
		return nil, nil, operation.Refuse(http.StatusConflict, "nothing was changed: there is a %s %s already", c.Kind, c.Name)
	case !c.Add && n < 0:
		return nil, nil, operation.Refuse(http.StatusNotFound, "nothing was changed: the database describes no %s %s", c.Kind, c.Name)
	case c.Add:
		kept.All = append(kept.All, description.Description{List: list, Name: c.Name})
		n = len(kept.All) - 1
	case c.IfMatch != "" && c.IfMatch != fmt.Sprint(kept.All[n].Version):
		return nil, nil, operation.Refuse(http.StatusPreconditionFailed, "nothing was changed: the %s %s was changed since it was read: read it again, and change what it is now", c.Kind, c.Name)
	default:
		was = kept.All[n].Text
	}
	d := &kept.All[n]
	if c.Remove {
		kept.All = slices.Delete(kept.All, n, n+1)
	} else {
		text, err := i.InForce().Describe(list, c.Name, was, c.Patch)
		if err != nil {
			return nil, nil, i.mistaken(c, operation.Refuse(http.StatusBadRequest, "nothing was changed: %v", err), err)
		}
		d.Text, d.Changed, d.By = text, i.Now().Truncate(time.Millisecond), caller.From(ctx).Name
	}
	next, err := i.checked(*kept)
	if err != nil {
		return nil, nil, i.mistaken(c, wrong(err), err)
	}
	return d, next, nil
}

// mistaken is a problem that names the settings of a change in which its cause is.
func (i *Instance) mistaken(c *admin.DescriptionChange, p *operation.Problem, cause error) error {
	for _, m := range i.InForce().Mistakes(c.Kind, c.Name, c.Patch, cause) {
		p.Errors = append(p.Errors, operation.MistakeAt(m.Setting, m.Text))
	}
	return p
}

// find is an element as the API shows it; nil: it is not there.
func find(c *config.Loaded, kept *description.Kept, list, name string) (*api.Description, error) {
	e, there := c.Named(list, name)
	if !there {
		return nil, nil
	}
	d, err := shownDescription(&e, kept)
	return &d, err
}
