package bullmqsource

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	_ "time/tzdata" // schedules name time zones, also on a machine without them

	"github.com/redis/rueidis"
)

// plans are what is known of the newest jobs of schedules, by id: the worker that takes one
// adds the next.
type plans map[string]plan

// plan is what happens when the newest job of a schedule is taken.
type plan struct {
	do      string // next, end or leave: see take.lua
	when    int64  // ms: what the next one is called by
	due     int64  // ms
	options string // of the next one
}

// mostPlans bounds what is remembered of schedules: a forgotten plan is read again.
const mostPlans = 1000

// args are the plans in the script's form.
func (p plans) args(args []string) []string {
	for id, n := range p {
		args = append(args, id, n.do, strconv.FormatInt(n.when, 10), strconv.FormatInt(n.due, 10), n.options)
	}
	return args
}

// learn makes plans for jobs that a script asked about. It leaves jobs of unsupported
// schedules to BullMQ's workers.
func (s *Source) learn(asked []rueidis.RedisMessage) error {
	for id, p := range s.plans { // taken jobs need theirs no more; left ones are asked about again after a while
		if p.do != "leave" || len(s.plans) >= mostPlans {
			delete(s.plans, id)
		}
	}
	for i := range asked {
		var f [8]string
		fields, err := asked[i].ToArray()
		if err != nil || len(fields) != len(f) {
			return errors.Join(errReply, err)
		}
		for n := range f {
			if n == 4 {
				ms, err := fields[n].AsInt64()
				if err != nil {
					return errors.Join(errReply, err)
				}
				f[n] = strconv.FormatInt(ms, 10)
				continue
			}
			if f[n], err = fields[n].ToString(); err != nil {
				return errors.Join(errReply, err)
			}
		}
		o := occurrence{id: f[0], schedule: f[1], options: f[3], scheduler: f[5] != ""}
		o.newest, o.now = number(f[2]), number(f[4])
		o.every, o.offset = number(f[6]), number(f[7])
		next, err := o.next()
		if err != nil {
			next = plan{do: "leave"}
			s.o.Report(Report{What: Scheduled, Count: 1, IDs: []string{o.id},
				Text: fmt.Sprintf("schedule %q of BullMQ queue %q is left to BullMQ's workers: %v", o.schedule, s.o.Queue, err)})
		}
		if s.plans == nil {
			s.plans = plans{}
		}
		s.plans[o.id] = next
	}
	return nil
}

// occurrence is the newest job of a schedule. Times are in ms.
type occurrence struct {
	id, schedule  string
	options       string // of the job, which the next one has too
	newest, now   float64
	scheduler     bool // a Job Scheduler; else a repeatable job of BullMQ 5
	every, offset float64
}

// repeat is what a job says of its schedule, as far as it counts.
type repeat struct {
	Pattern, Cron string // Cron: of old jobs
	Every         float64
	Limit, Count  float64
	Offset        float64
	TZ            string
	UTC           bool
	StartDate     json.RawMessage
	EndDate       json.RawMessage
	Immediately   bool
}

// next returns what comes after the occurrence, as BullMQ's worker decides it when it takes the
// job.
func (o *occurrence) next() (plan, error) {
	options, said := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	var r repeat
	if err := json.Unmarshal([]byte(o.options), &options); err != nil {
		return plan{}, fmt.Errorf("its options cannot be read: %w", err)
	}
	if err := errors.Join(json.Unmarshal(options["repeat"], &said), json.Unmarshal(options["repeat"], &r)); err != nil {
		return plan{}, fmt.Errorf("what it says about repeating cannot be read: %w", err)
	}
	start, err1 := date(r.StartDate)
	end, err2 := date(r.EndDate)
	if err := errors.Join(err1, err2); err != nil {
		return plan{}, err
	}
	var before float64
	_ = json.Unmarshal(options["prevMillis"], &before) // the first one has none
	count := r.Count + 1
	if _, limited := said["limit"]; limited && count > r.Limit || end > 0 && o.now > end {
		return plan{do: "end"}, nil
	}
	from := max(before, o.now)
	if r.Pattern == "" {
		r.Pattern = r.Cron
	}
	var when, due float64
	switch every := o.interval(&r); {
	case every > 0 && r.Pattern == "" && o.scheduler:
		when = o.after(every, &r)
		due = when
	case every > 0 && r.Pattern == "":
		when = math.Floor(from/every)*every + every
		due = when + r.Offset
	case r.Pattern != "":
		at, err := r.at(from, start)
		if err != nil {
			return plan{}, err
		}
		if at == 0 || end > 0 && at > end {
			return plan{do: "end"}, nil
		}
		when = max(at, from)
		if due = when; !o.scheduler {
			due += r.Offset
		}
	default:
		return plan{}, errors.New("it has neither a pattern nor an interval that is known here")
	}
	set(said, "count", count)
	delete(said, "immediately")
	if o.scheduler {
		for name, ms := range map[string]float64{"startDate": start, "endDate": end} {
			if ms > 0 {
				set(said, name, ms)
			}
		}
	}
	p := plan{do: "next", when: int64(when), due: int64(due)}
	set(options, "repeat", said)
	set(options, "jobId", o.id[:len(o.id)-len(strconv.FormatInt(int64(o.newest), 10))]+strconv.FormatInt(p.when, 10))
	set(options, "delay", max(0, p.due-int64(o.now)))
	set(options, "timestamp", int64(o.now))
	set(options, "prevMillis", p.when)
	set(options, "repeatJobKey", o.schedule)
	text, err := json.Marshal(options)
	p.options = string(text)
	return p, err
}

// interval is how often it is due; 0: it has a pattern.
func (o *occurrence) interval(r *repeat) float64 {
	if o.scheduler && o.every > 0 {
		return math.Floor(o.every)
	}
	return math.Floor(r.Every)
}

// after is when a Job Scheduler is due again: missed iterations are left out, and the others
// stay where the first one was.
func (o *occurrence) after(every float64, r *repeat) float64 {
	next := o.newest + every
	if next >= o.now {
		return next
	}
	offset := o.offset
	if offset == 0 {
		offset = r.Offset
	}
	next = math.Floor(o.now/every)*every + offset
	if next <= o.now {
		next += every
	}
	return math.Floor(next)
}

// at is when a pattern is due next, in ms; 0: never.
func (r *repeat) at(from, start float64) (float64, error) {
	c, err := parseCron(r.Pattern)
	if err != nil {
		return 0, err
	}
	zone := time.Local // as BullMQ's workers have it
	if r.UTC {
		zone = time.UTC
	}
	if r.TZ != "" {
		if zone, err = time.LoadLocation(r.TZ); err != nil {
			return 0, fmt.Errorf("its time zone %q is not known here", r.TZ)
		}
	}
	t := c.next(time.UnixMilli(int64(max(from, start))).In(zone))
	if t.IsZero() {
		return 0, nil
	}
	return float64(t.UnixMilli()), nil
}

// date reads a date that JavaScript wrote, as JavaScript does: ms, or RFC 3339; 0: none.
func date(raw json.RawMessage) (float64, error) {
	var ms float64
	var at time.Time
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return 0, nil
	case json.Unmarshal(raw, &ms) == nil:
		return ms, nil
	case json.Unmarshal(raw, &at) == nil:
		return float64(at.UnixMilli()), nil
	}
	return 0, fmt.Errorf("its date %s cannot be read", raw)
}

// number reads one of BullMQ's numbers; 0 for anything that is not a number.
func number(text string) float64 {
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

// set sets a value that JSON can always hold.
func set(of map[string]json.RawMessage, name string, value any) {
	of[name], _ = json.Marshal(value)
}
