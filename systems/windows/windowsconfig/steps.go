package windowsconfig

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/config"
	"github.com/tidemill/tidemill/internal/httpguard"
	"github.com/tidemill/tidemill/policy"
	"github.com/tidemill/tidemill/systems/windows/process"
)

// Steps are the processors of the configuration. Its error names every one that cannot
// work.
func (w *Settings) Steps(now func() time.Time) (steps []process.Step, _ error) {
	var errs []error
	names := map[string]int{process.Reading: 0}
	for i := range w.Processors {
		p := &w.Processors[i]
		step, err := w.step(p, now)
		if err == nil {
			if other, taken := names[step.Processor.Name()]; taken && other == 0 {
				err = errors.New("name: " + config.Invalid(process.Reading, "another name than that of the reading of stored records"))
			} else if taken {
				err = fmt.Errorf("it is called %q, as number %d is: give it a name of its own", step.Processor.Name(), other)
			} else {
				names[step.Processor.Name()] = i + 1
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: number %d: %w", w.c.Element("windows.processors", i), i+1, err))
		}
		steps = append(steps, step)
	}
	return steps, errors.Join(errs...)
}

func (w *Settings) step(p *Processor, now func() time.Time) (s process.Step, err error) {
	if s.Kind, err = p.Of(); err != nil {
		return s, fmt.Errorf("kind: %q: want event or mention, or leave it out for both", p.Kind)
	}
	if s.OnError, err = process.ParseOnError(p.OnError); err != nil {
		return s, fmt.Errorf("on_error: %q: want pass, retry or dead", p.OnError)
	}
	var made []func() (process.Processor, error)
	add := func(there bool, setting string, check func() error, make func() (process.Processor, error)) {
		if there {
			made = append(made, func() (process.Processor, error) {
				if err := check(); err != nil {
					return nil, err
				}
				step, err := make()
				if err != nil {
					err = fmt.Errorf("%s: %w", setting, err)
				}
				return step, err
			})
		}
	}
	add(p.Filter != nil, "filter.keep", func() error {
		return wanted(p.Filter.Keep != "", "filter.keep", "an expression that is true for the records to keep, such as numMentions > 1")
	}, func() (process.Processor, error) {
		return process.Filter{ID: p.Name, Keep: p.Filter.Keep, Reason: p.Filter.Reason}.New()
	})
	add(p.Validate != nil, "validate", func() error { return p.checkValidate() }, process.Validate{ID: p.Name, Rules: p.Validate}.New)
	add(p.Map != nil, "map", func() error { return p.checkMap() }, process.Map{ID: p.Name, Values: p.Map}.New)
	add(p.Geo != nil, "geo", func() error { return nil }, func() (process.Processor, error) {
		return process.Geo{ID: p.Name, Zero: p.Geo.Zero, Point: p.Geo.Point}.New()
	})
	add(p.Dedup != nil, "dedup", func() error {
		return errors.Join(wanted(s.Kind != 0, "kind", "event or mention: dedup compares values of one kind of records"),
			wanted(len(p.Dedup.By) > 0, "dedup.by", "a list of names of values, such as [globalEventId]"),
			wanted(p.Dedup.Max >= 0, "dedup.max", "a whole number of records, 0 for a million"))
	}, func() (process.Processor, error) {
		return process.Dedup{ID: p.Name, Of: s.Kind, By: p.Dedup.By, Max: p.Dedup.Max, Any: p.Dedup.Any}.New()
	})
	add(p.Aggregate != nil, "aggregate", func() error {
		return errors.Join(wanted(s.Kind != 0, "kind", "event or mention: aggregate counts one kind of records"),
			wanted(p.Aggregate.Max >= 0, "aggregate.max", "a whole number of groups, 0 for 10000"))
	}, func() (process.Processor, error) {
		return process.Aggregate{ID: p.Name, Of: s.Kind, By: p.Aggregate.By, Sum: p.Aggregate.Sum, Max: p.Aggregate.Max}.New()
	})
	add(p.HTTP != nil, "http", func() error { return p.HTTP.check() }, func() (process.Processor, error) { return w.http(p, now) })
	if len(made) != 1 {
		return s, errors.New("say what it does: exactly one of filter, validate, map, geo, dedup, aggregate and http")
	}
	s.Processor, err = made[0]()
	return s, err
}

// wanted is the error of a setting that is not as it has to be.
func wanted(good bool, setting, form string) error {
	if good {
		return nil
	}
	return fmt.Errorf("%s: want %s", setting, form)
}

func (p *Processor) checkValidate() error {
	errs := []error{wanted(len(p.Validate) > 0, "validate", "a list of rules, such as [{must: 'numMentions > 0', why: nobody mentions it}]")}
	for i, r := range p.Validate {
		errs = append(errs, wanted(r.Must != "", fmt.Sprintf("validate[%d].must", i), "an expression that is true for valid records, such as numMentions > 0"))
	}
	return errors.Join(errs...)
}

func (p *Processor) checkMap() error {
	errs := []error{wanted(len(p.Map) > 0, "map", "a list of values, such as [{name: source, from: '\"gdelt\"'}]")}
	for i, v := range p.Map {
		errs = append(errs, wanted(v.Name != "", fmt.Sprintf("map[%d].name", i), "the name of the value that is made"),
			wanted(v.From != "", fmt.Sprintf("map[%d].from", i), "an expression, or the name of a value"))
	}
	return errors.Join(errs...)
}

func (h *HTTP) check() error {
	u, err := url.Parse(h.URL)
	return errors.Join(
		wanted(err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http"), "http.url", "the address of a service, such as https://service.example/v1"),
		wanted(h.Items >= 0, "http.items", "a whole number of records, 0 for 100"),
		wanted(h.Parallel >= 0 && h.Parallel <= 64, "http.parallel", "0 to 64 requests at once"),
		wanted(h.Timeout >= 0, "http.timeout", "a duration such as 10s, 0 for 10s"),
		wanted(h.Retries >= 0 && h.Retries <= 100, "http.retries", "0 to 100"))
}

func (w *Settings) http(p *Processor, now func() time.Time) (process.Processor, error) {
	h := p.HTTP
	var allow config.Networks
	if err := allow.UnmarshalText([]byte(strings.Join(h.AllowPrivate, ","))); err != nil {
		return nil, fmt.Errorf("allowPrivate: %w", err)
	}
	header := map[string]tidemill.Secret{}
	for name, value := range h.Headers {
		header[name] = tidemill.NewSecret(value)
	}
	for name, variable := range h.HeadersEnv {
		s, ok := w.c.Secret(variable)
		if !ok {
			return nil, fmt.Errorf("headers_env: neither %s nor %s_FILE is set", variable, variable)
		}
		header[name] = s
	}
	guard, err := httpguard.New(httpguard.Options{Allow: allow, Plain: h.AllowHTTP, Connections: cmp.Or(h.Parallel, 1) * w.AtOnce})
	if err != nil {
		return nil, err
	}
	return process.HTTP{ID: p.Name, URL: h.URL, Header: header, Fields: h.Fields, Items: h.Items, Parallel: h.Parallel, Timeout: h.Timeout,
		Retry:   policy.Retry{Tries: h.Retries, Base: time.Second / 2, Factor: 2, Max: 10 * time.Second, Jitter: policy.Equal},
		Breaker: policy.Breaker{Fails: 5, Open: 10 * time.Second}, Now: now}.New(guard)
}
