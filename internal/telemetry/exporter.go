//go:build !embedded

package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemill/tidemill"
	"github.com/tidemill/tidemill/flow"
)

// Bounds of what waits for the collector, and of the time that it is given.
const (
	most     = 8192 // spans that wait
	together = 512  // spans of a request
	often    = 200 * time.Millisecond
	timeout  = 5 * time.Second // of a request, its repetitions included; and of all of them at the end
)

// Exporter is a tidemill.Tracer. Its methods may be called from anywhere.
type Exporter struct {
	o        Options
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	waiting  *waiting
	send     sdk.SpanExporter
	heard    *heard
	metrics  *metrics // nil: none are sent
	spans    *prometheus.CounterVec
	batch    []sdk.ReadOnlySpan
}

var _ tidemill.Tracer = (*Exporter)(nil)

// Open makes an exporter. It connects to nothing: that a collector is away is logged when something is
// to be sent.
func Open(ctx context.Context, o Options) (*Exporter, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	e := &Exporter{o: o, heard: newHeard(o.Via), spans: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemill_telemetry_spans_total", Help: "Spans by what became of them: exported, dropped because too many waited, failed because the collector did not take them."}, []string{"outcome"})}
	for _, outcome := range []string{"exported", "dropped", "failed"} {
		e.spans.WithLabelValues(outcome)
	}
	if err := o.Registry.Register(e.spans); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	of, err := e.resource(ctx)
	if err != nil {
		return nil, err
	}
	if e.send, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(place(o.Endpoint, "/v1/traces")), otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithTimeout(timeout),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression), otlptracehttp.WithHTTPClient(e.heard.client()),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: timeout / 10, MaxInterval: timeout, MaxElapsedTime: timeout})); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { // which has the collector's own words
		// Logged when the collector refused a part of what it was sent. Its words are left out: they
		// can repeat secrets.
		// To do: read the collector's own log.
		o.Log.Warn("the collector took a part of what it was sent, or the exporter had another error that is no failure")
	}))
	e.waiting = &waiting{spans: make(chan sdk.ReadOnlySpan, most), dropped: e.dropped}
	e.provider = sdk.NewTracerProvider(sdk.WithResource(of), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(ids{}), sdk.WithSpanProcessor(e.waiting))
	e.tracer = e.provider.Tracer("github.com/tidemill/tidemill")
	if o.Metrics > 0 {
		if e.metrics, err = newMetrics(ctx, &e.o, of); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// place is where a signal is sent to.
func place(endpoint, path string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint // which the exporter refuses
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	return u.String()
}

// resource says what it is that sends. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
func (e *Exporter) resource(ctx context.Context) (*resource.Resource, error) {
	is := []attribute.KeyValue{attribute.String("service.name", "tidemill"), attribute.String("service.version", e.o.Version)}
	if e.o.Instance != "" {
		is = append(is, attribute.String("service.instance.id", e.o.Instance))
	}
	of, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(is...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return of, nil
}

// Under makes the trace of a new span.
func (e *Exporter) Under(parent *tidemill.Trace) (t tidemill.Trace) {
	if parent != nil {
		t = *parent
	} else {
		t.Sampled = float64(e.o.Random()>>11)/(1<<53) < e.o.Sample
		for i := range 2 {
			binary.BigEndian.PutUint64(t.ID[8*i:], e.o.Random()|1) // never zero
		}
	}
	binary.BigEndian.PutUint64(t.Span[:], e.o.Random()|1)
	return t
}

// Ended exports a span.
func (e *Exporter) Ended(s *tidemill.Span) {
	ctx := context.WithValue(context.Background(), idKey{}, &s.Trace)
	if s.Parent != [8]byte{} {
		parent := s.Trace
		parent.Span = s.Parent
		ctx = trace.ContextWithRemoteSpanContext(ctx, contextOf(&parent))
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.Begin), trace.WithSpanKind(kinds[s.Kind]), trace.WithAttributes(attributes(s)...)}
	for i := range s.Links {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: contextOf(&s.Links[i])}))
	}
	_, span := e.tracer.Start(ctx, s.Name, options...)
	if s.Error != "" {
		span.SetStatus(codes.Error, s.Error)
	}
	span.End(trace.WithTimestamp(s.End))
}

var kinds = [...]trace.SpanKind{tidemill.SpanInternal: trace.SpanKindInternal, tidemill.SpanServer: trace.SpanKindServer, tidemill.SpanClient: trace.SpanKindClient,
	tidemill.SpanProducer: trace.SpanKindProducer, tidemill.SpanConsumer: trace.SpanKindConsumer}

func attributes(s *tidemill.Span) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(s.Attributes)+1)
	for _, a := range s.Attributes {
		if a.Text != "" {
			all = append(all, attribute.String(a.Name, strings.ToValidUTF8(a.Text, "\uFFFD")))
		} else {
			all = append(all, attribute.Int64(a.Name, a.Number))
		}
	}
	if s.Error != "" {
		all = append(all, attribute.String("error.type", s.Error))
	}
	return all
}

func contextOf(t *tidemill.Trace) trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: t.ID, SpanID: t.Span, Remote: true}
	if t.Sampled {
		c.TraceFlags = trace.FlagsSampled
	}
	if state, err := trace.ParseTraceState(t.State); err == nil { // what others wrote need not be right
		c.TraceState = state
	}
	return trace.NewSpanContext(c)
}

// ids are those that a span already has.
type ids struct{}

type idKey struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	t := ctx.Value(idKey{}).(*tidemill.Trace)
	return t.ID, t.Span
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(idKey{}).(*tidemill.Trace).Span
}

// waiting are the spans that wait for the loop: a processor of the SDK that never waits.
type waiting struct {
	spans   chan sdk.ReadOnlySpan
	dropped func()
}

func (w *waiting) OnStart(context.Context, sdk.ReadWriteSpan) {}

func (w *waiting) OnEnd(s sdk.ReadOnlySpan) {
	select {
	case w.spans <- s:
	default:
		w.dropped()
	}
}

func (w *waiting) Shutdown(context.Context) error { return nil }

func (w *waiting) ForceFlush(context.Context) error { return nil }

func (e *Exporter) dropped() { e.spans.WithLabelValues("dropped").Inc() }

// Loops are the side jobs that send.
func (e *Exporter) Loops() []flow.Loop {
	loops := []flow.Loop{{Name: "spans to the collector", Every: often, Do: func(ctx context.Context) error { e.export(ctx); return nil }}}
	if e.metrics != nil {
		loops = append(loops, flow.Loop{Name: "metrics to the collector", Every: e.o.Metrics, Do: func(ctx context.Context) error { e.metrics.export(ctx); return nil }})
	}
	return loops
}

// export sends what waits. Its errors are logged and counted, once for each time that the collector is
// away: nothing else depends on them.
func (e *Exporter) export(ctx context.Context) {
	for ctx.Err() == nil {
		e.batch = e.batch[:0]
		for len(e.batch) < together && len(e.waiting.spans) > 0 {
			e.batch = append(e.batch, <-e.waiting.spans)
		}
		if len(e.batch) == 0 {
			return
		}
		err := e.send.ExportSpans(ctx, e.batch)
		outcome := "exported"
		if err != nil {
			outcome = "failed"
		}
		e.spans.WithLabelValues(outcome).Add(float64(len(e.batch)))
		clear(e.batch)
		switch failed := err != nil; {
		case !e.heard.turns(failed):
		case failed:
			// Logged when the collector does not take spans; once for each outage.
			// To do: make the collector answer, or correct `telemetry.endpoint` and its headers.
			e.o.Log.WarnContext(ctx, "spans cannot be exported: they are dropped until the collector takes them", "error", e.heard.why())
		default:
			// Logged when the collector takes spans again.
			e.o.Log.InfoContext(ctx, "spans are exported again")
		}
	}
}

// Close sends what waits, for five seconds at most. The loops must have ended.
func (e *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	e.export(ctx)
	err := errors.Join(e.provider.Shutdown(ctx), e.send.Shutdown(ctx))
	if e.metrics != nil {
		err = errors.Join(err, e.metrics.close(ctx))
	}
	return err
}
