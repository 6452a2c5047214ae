package console

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tidemill/tidemill/internal/preflight"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
	"github.com/tidemill/tidemill/serve/console/page"
)

const (
	doctorWithin = 10 * time.Second // the doctor asks every store
	doctorFor    = 30 * time.Second // what it found is shown that long to everybody
)

// doctor keeps what the doctor found, which reads every page of a database.
type doctor struct {
	mu    sync.Mutex
	at    time.Time
	found []preflight.Finding
}

// health is what the doctor found, what is worst first.
type health struct {
	At       time.Time
	Findings []preflight.Finding
	Problem  *operation.Problem
	Fail     int
	Warn     int
}

func (d *doctor) look(v *page.Visit) (h health) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.At.Sub(d.at) > doctorFor || v.Query().Get("again") != "" && v.At.Sub(d.at) > time.Second {
		ctx, cancel := context.WithTimeout(v.R.Context(), doctorWithin)
		defer cancel()
		f, err := api.GetDoctor.Call(ctx, v.API, &operation.None{})
		if err != nil {
			h.Problem = page.Problem(err)
		} else {
			d.at, d.found = v.At, f.Findings
		}
	}
	h.At, h.Findings = d.at, slices.Clone(d.found)
	order := []string{preflight.Fail, preflight.Warn, preflight.OK}
	slices.SortStableFunc(h.Findings, func(a, b preflight.Finding) int {
		return slices.Index(order, a.Verdict) - slices.Index(order, b.Verdict)
	})
	for _, f := range h.Findings {
		switch f.Verdict {
		case preflight.Fail:
			h.Fail++
		case preflight.Warn:
			h.Warn++
		}
	}
	return h
}

func (c *Console) showHealth(v *page.Visit) (*page.View, error) {
	if err := v.Allowed("Health", api.GetDoctor.ID); err != nil {
		return nil, err
	}
	return &page.View{File: "health", Title: "Health", Section: "health", Body: c.doctor.look(v)}, nil
}

func showConfig(v *page.Visit) (*page.View, error) {
	ctx, cancel := v.Context()
	defer cancel()
	in, err := api.GetConfig.Body(ctx, v.API, &operation.None{})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	return &page.View{File: "config", Title: "Configuration", Section: "config", Body: string(text)}, err
}
