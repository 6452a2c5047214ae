// Package plan computes servers from what was measured: processors, memory and disk for so many
// events a second. It says which part is the limit, and refuses what was not measured.
package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Asked is what a plan is for.
type Asked struct {
	System   string
	Servers  []string      // none: one file
	Rate     float64       // events a second
	Size     float64       // bytes of an event; 0: that of the events that were measured
	Partners int           // of delivery; at least 1
	Keep     time.Duration // what is kept without a time of its own; 0: for ever, which has no size
	Waiting  time.Duration // the longest time for which all events wait
}

// A Plan is what a system needs.
type Plan struct {
	System    string   `json:"system"`
	Servers   []string `json:"servers"` // empty: one file
	Rate      float64  `json:"rate"`
	Size      float64  `json:"size"`      // bytes of an event
	Instances int      `json:"instances"` // of tidemill
	Needs     []Need   `json:"needs"`
	Limit     string   `json:"limit"`    // which part ends what can be done
	UpTo      float64  `json:"up_to"`    // events a second that this plan is good for
	Breaks    string   `json:"breaks"`   // what happens beyond it
	Set       []string `json:"set"`      // settings that have to be other than their defaults
	Assumed   []string `json:"assumed"`  // beside what was measured
	Unknown   []string `json:"unknown"`  // what was not measured, and is not in the plan
	Measured  string   `json:"measured"` // where the figures are from
}

// Need is what a process needs; of tidemill, each instance. 0 is not known, or nothing.
type Need struct {
	Name   string  `json:"name"`
	Cores  float64 `json:"cores"`        // of a machine that is busy for 60%
	Memory float64 `json:"memory"`       // bytes
	Daily  float64 `json:"disk_per_day"` // bytes of what is kept for as long as --keep says
	Disk   float64 `json:"disk"`         // bytes, when all that is kept is as old as it gets; without --keep it grows by Daily
	Holds  string  `json:"holds,omitempty"`
}

const (
	busy   = 0.6 // how busy a part is planned to be
	spare  = 4. / 3
	given  = 1 << 30 // memory that deploy gives an instance
	most   = 1 << 20 // bytes of an event
	daily  = 86_400
	mebi   = 1 << 20
	fewest = 2 // instances on servers: one may fail
)

// Of computes a plan of a system from its figures. Its error says what cannot be said, and what can.
func Of(a Asked, all []Figures) (*Plan, error) {
	f, err := find(a, all)
	if err != nil {
		return nil, err
	}
	if a.Size == 0 {
		a.Size = f.Size
	}
	a.Partners = max(a.Partners, 1)
	if err := a.check(f); err != nil {
		return nil, err
	}
	p := &Plan{System: a.System, Servers: append([]string{}, f.Servers...), Rate: a.Rate, Size: a.Size, Instances: 1, Limit: f.Limit, Breaks: f.Breaks, Unknown: append([]string{}, f.Unknown...), Measured: f.Source}
	costs, reached := f.scaled(a)
	p.UpTo = busy * reached
	if len(f.Servers) > 0 {
		p.Instances = max(fewest, int(math.Ceil(a.Rate/p.UpTo)))
		p.UpTo *= float64(p.Instances)
	}
	if one, at := single(costs); one > 0 && busy*one < p.UpTo {
		p.UpTo, p.Limit = busy*one, at+", which uses one core"
	}
	if a.Rate > p.UpTo {
		return nil, fmt.Errorf("%.0f events a second are more than can be said of %s: the limit is %s, planned for up to %.0f of this size%s", a.Rate, f.name(), p.Limit, p.UpTo, f.others(all))
	}
	for _, c := range costs {
		n := Need{Name: c.At, Cores: a.Rate * c.Micros / 1e6 / busy}
		if c.At == Own {
			n.Cores /= float64(p.Instances)
			n.Memory = max(given, f.RSS*mebi*spare)
		}
		p.Needs = append(p.Needs, n)
	}
	p.store(f, a)
	p.Assumed, p.Set = f.assumed(a), append([]string{}, f.Set...)
	if n := a.Rate * a.Waiting.Seconds(); n > queueMax && f.QueueMax != "" {
		p.Set = append(p.Set, fmt.Sprintf("%s: %.0f would wait, and %d may by default: that is reached after %s", f.QueueMax, n, queueMax, time.Duration(queueMax/a.Rate)*time.Second))
	}
	return p, nil
}

// check refuses what no figure says anything of.
func (a *Asked) check(f *Figures) error {
	switch {
	case a.Rate <= 0 || math.IsInf(a.Rate, 0) || math.IsNaN(a.Rate):
		return errors.New("--rate: how many events a second? More than 0")
	case a.Size < 1 || a.Size > most:
		return fmt.Errorf("--size: an event has 1 byte to 1MiB; %.0f were measured", f.Size)
	case a.Keep < 0 || a.Waiting < 0:
		return errors.New("--keep and --waiting are not negative")
	case a.Partners > 1 && !f.PerPartner:
		return fmt.Errorf("--partners: events of %s are not for partners", a.System)
	case a.Keep > 0 && !slices.ContainsFunc(f.Kept, func(s Stored) bool { return s.Days == 0 }):
		return fmt.Errorf("--keep: nothing of %s on %s is kept for as long as you say", a.System, f.name())
	}
	return nil
}

// find finds the figures of a system on servers.
func find(a Asked, all []Figures) (*Figures, error) {
	var sets []string
	for i := range all {
		f := &all[i]
		if slices.Equal(slices.Sorted(slices.Values(f.Servers)), slices.Sorted(slices.Values(a.Servers))) {
			return f, nil
		}
		sets = append(sets, f.option())
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("nothing was measured of the system %s", a.System)
	}
	where := "in one file"
	if len(a.Servers) > 0 {
		where = "on " + strings.Join(a.Servers, ", ")
	}
	return nil, fmt.Errorf("%s %s was not measured as a whole; there are figures %s", a.System, where, strings.Join(sets, ", and "))
}

func (f *Figures) option() string {
	if len(f.Servers) == 0 {
		return "without --servers"
	}
	return "with --servers " + strings.Join(f.Servers, ",")
}

func (f *Figures) name() string {
	if len(f.Servers) == 0 {
		return "one file"
	}
	return strings.Join(f.Servers, ", ")
}

// others names the sets of servers of the same system that may do more.
func (f *Figures) others(all []Figures) string {
	for i := range all {
		if o := &all[i]; len(o.Servers) > len(f.Servers) {
			return "; look at it " + o.option()
		}
	}
	return ""
}

// heavier is how much more an event costs than one that was measured: as its size, and never less.
func heavier(size, measured float64) float64 { return max(1, size/measured) }

// scaled are the costs of an event of this size, and the rate that an instance reached with it.
func (f *Figures) scaled(a Asked) (costs []Cost, reached float64) {
	times := heavier(a.Size, f.Size)
	for _, c := range f.CPU {
		if c.At == Own && f.PerPartner {
			c.Micros = f.Ingest + c.Micros*float64(a.Partners)
		}
		costs = append(costs, Cost{c.At, c.Micros * times})
	}
	reached = f.Rate / times
	if f.PerPartner {
		reached /= float64(a.Partners)
	}
	return costs, reached
}

// single is the rate at which a server that has one core is wholly busy, and which that is; 0: there
// is none.
func single(costs []Cost) (rate float64, at string) {
	for _, c := range costs {
		if one := 1e6 / c.Micros; (c.At == Redis || c.At == Broker) && (rate == 0 || one < rate) {
			rate, at = one, c.At
		}
	}
	return rate, at
}

// store adds what waits and what is kept to the needs.
func (p *Plan) store(f *Figures, a Asked) {
	waits := f.Waits.of1(a.Size) * a.Rate * a.Waiting.Seconds() * float64(a.Partners) // which is 1 where there are none
	p.add(f.Waits.At, Need{Disk: waits, Memory: waits})
	for _, s := range f.Kept {
		perDay := s.of1(a.Size) * a.Rate * daily
		n := Need{Disk: perDay * s.Days, Memory: perDay * s.Days, Holds: s.What}
		if s.Days == 0 {
			n.Daily, n.Disk = perDay, perDay*a.Keep.Hours()/24
		}
		p.add(s.At, n)
	}
}

// of1 is how many bytes an event of this size takes.
func (s *Stored) of1(size float64) float64 {
	if s.Of == 0 {
		return s.Bytes
	}
	return s.Bytes * size / s.Of
}

// add adds bytes to what holds them: Redis in its memory, with a third to spare, all others on disk.
// What --keep gives no end has no size.
func (p *Plan) add(at string, more Need) {
	i := slices.IndexFunc(p.Needs, func(n Need) bool { return n.Name == at })
	if i < 0 {
		i, p.Needs = len(p.Needs), append(p.Needs, Need{Name: at})
	}
	n := &p.Needs[i]
	if at == Redis {
		n.Memory += more.Memory * spare
	}
	n.Daily += more.Daily
	n.Disk += more.Disk
	if more.Holds != "" {
		n.Holds = strings.TrimPrefix(n.Holds+"; "+more.Holds, "; ")
	}
}

func (f *Figures) assumed(a Asked) []string {
	said := []string{
		fmt.Sprintf("every part is planned to be busy for %.0f%%, an instance for %.0f%% of the rate that was measured", busy*100, busy*100),
		"cores are as fast as those that were measured, a virtual machine's; rates there drifted by a third between minutes",
	}
	if a.Size != f.Size {
		said = append(said, fmt.Sprintf("events of %.0f bytes were measured: smaller ones cost as much, larger ones more in proportion", f.Size))
	}
	if len(f.Servers) > 0 {
		said = append(said, fmt.Sprintf("at least %d instances, so that one may fail; what an event costs with up to three is in docs/scale.md, and on machines of their own it was not measured; no copy of a server is counted", fewest))
	}
	if f.PerPartner {
		said = append(said, fmt.Sprintf("%d deliveries of an event, one for each partner", a.Partners))
	}
	return append(said, "bytes of an event grow with its size; a third of Redis' memory is to spare, for the rewriting of its log")
}
