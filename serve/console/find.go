package console

import (
	"context"
	"net/url"
	"strings"
	"sync"

	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

// found is what a text is the id or the name of.
type found struct {
	Text  string
	Hits  []hit
	Where []string // where was looked
	Not   []string // where was not, or could not be, and why
}

type hit struct{ Kind, Name, More, Href string }

// queuesAsked is how many queues are asked for a job.
const queuesAsked = 100

// showFind looks for what the one box was given: a dead letter by its number or its message's id, a
// job by its id in each queue, a queue or a pipeline by its name. One hit is gone to straight away.
func showFind(v *visit) (*view, error) {
	f := &found{Text: strings.TrimSpace(v.query().Get("q"))}
	if f.Text != "" {
		f.look(v)
		if len(f.Hits) == 1 {
			v.redirect(f.Hits[0].Href)
			return nil, nil
		}
	}
	return &view{file: "find", Title: "Find", Body: f}, nil
}

func (f *found) look(v *visit) {
	var mu sync.Mutex
	var all sync.WaitGroup
	add := func(h hit) {
		mu.Lock()
		defer mu.Unlock()
		f.Hits = append(f.Hits, h)
	}
	skip := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		f.Not = append(f.Not, text)
	}
	not := func(where string, err error) {
		if p := problemOf(err); p != nil && p.Status != 404 {
			skip(where + ": " + p.Detail)
		}
	}
	if v.may(api.ListDead.ID) {
		f.Where = append(f.Where, "dead letters, by number and by the message's id")
		all.Go(func() { not("dead letters", f.dead(v, add)) })
	}
	if v.may(api.ListQueues.ID) {
		queues := listQueues(v)
		if queues.Problem != nil && queues.Problem.Status != 404 {
			skip("queues: " + queues.Problem.Detail)
		}
		f.Where = append(f.Where, "queues, by name; jobs, by id")
		for i, q := range queues.Has {
			if q.Name == f.Text {
				add(hit{"queue", q.Name, stateOf(&q), address("queues", q.Name)})
			}
			if i >= queuesAsked {
				skip("jobs of queues beyond the first 100: open the queue and filter by id")
				break
			}
			all.Go(func() {
				j := look(v, func(ctx context.Context) (api.Job, error) {
					return api.GetJob.Call(ctx, v.API, &api.OneJob{OneQueue: api.OneQueue{Queue: q.Name}, Job: f.Text})
				})
				switch {
				case j.Problem == nil:
					add(hit{"job", j.Has.ID, j.Has.State + " in " + q.Name, jobAddress(&j.Has)})
				case j.Problem.Status == 409: // several tenants have it
					add(hit{"jobs", f.Text, "of several tenants, in " + q.Name, query(address("queues", q.Name, "jobs"), url.Values{"id": {f.Text}})})
				default:
					not("jobs of "+q.Name, j.Problem)
				}
			})
		}
	}
	if v.may(api.GetStatus.ID) {
		f.Where = append(f.Where, "systems and pipelines of this instance, by name")
		all.Go(func() { not("pipelines", f.pipelines(v, add)) })
	}
	all.Wait()
}

func (f *found) dead(v *visit, add func(hit)) error {
	ctx, cancel := v.ctx()
	defer cancel()
	page := operation.Page{Order: "newest", Limit: 25}
	ask := []*api.DeadFilter{{IDs: []string{f.Text}, Page: page}, {Page: page}}
	if api.ListDead.Parse(url.Values{"seq": {f.Text}}, ask[1]) != nil { // it is no number
		ask = ask[:1]
	}
	for _, q := range ask {
		p, err := api.ListDead.Page(ctx, v.API, q)
		if err != nil {
			return err
		}
		for i := range p.Items {
			l := &p.Items[i].DeadLetter
			add(hit{"dead letter", l.ID, l.Pipeline + " · " + cut(l.Cause), deadAddress(l)})
		}
	}
	return nil
}

func (f *found) pipelines(v *visit, add func(hit)) error {
	s, err := call(v, api.GetStatus, &operation.None{})
	for _, sys := range s.Systems {
		for _, p := range sys.Pipelines {
			if p.Name == f.Text {
				add(hit{"pipeline", p.Name, p.State, address("instances") + "#" + p.Name})
			}
		}
	}
	return err
}
