// Package tracing records the way of an event to its alerts as spans of OpenTelemetry, and exports them over OTLP.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/periodic"
)

// TraceReader reads the traces of pending jobs. The store implements it.
type TraceReader interface {
	// TracesOf returns the traces of jobs by id; jobs without one are left out.
	TracesOf(ctx context.Context, jobs []futurejobs.Ref, ids []int64) (map[int64]string, error)
}

// Options configure a Tracer.
type Options struct {
	Endpoint string // base URL of a collector; empty: that of the variables OTEL_EXPORTER_OTLP_…
	Node     string // name of the node
	Version  string
	Subject  func(alerts.Alert) string // subject that an alert is published on
	Jobs     TraceReader
	Log      *slog.Logger
	Count    func(outcome string, spans int) // counts exported spans: Sent or Failed
}

// The outcomes of the export of spans.
const (
	Sent   = "sent"
	Failed = "failed"
)

// Tracer records spans. Its methods are safe for concurrent use, and do not wait for the collector: spans that it does
// not take are lost.
type Tracer struct {
	TraceReader
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	subject  func(alerts.Alert) string
}

// New returns a tracer. It connects to the collector when it has spans. The variables OTEL_… of the SDK set the sampler,
// the batches, the headers and certificates of the export, and attributes of the resource.
func New(ctx context.Context, o Options) (*Tracer, error) {
	var options []otlptracehttp.Option
	if o.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimSuffix(o.Endpoint, "/")+"/v1/traces"))
	}
	// A repeat would hold up newer spans, and the next batch follows within seconds.
	options = append(options, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w; check otlp_endpoint and the variables OTEL_EXPORTER_OTLP_…", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "deadman"), attribute.String("service.version", o.Version), attribute.String("service.instance.id", o.Node),
	), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: %w; check the variables OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME", err)
	}
	watched := &watchedExporter{SpanExporter: exporter, count: o.Count, status: periodic.NewStatus(o.Log, slog.LevelWarn, "export of traces")}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(watched), sdktrace.WithResource(about))
	return &Tracer{TraceReader: o.Jobs, tracer: provider.Tracer("deadman", trace.WithInstrumentationVersion(o.Version)), provider: provider, subject: o.Subject}, nil
}

// Close exports the spans that remain, until ctx ends. Without a collector they are lost.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// watchedExporter reports whether the collector takes spans: the first of consecutive failures and the recovery in the
// log, and all of them as counts.
type watchedExporter struct {
	sdktrace.SpanExporter
	status *periodic.Status
	count  func(outcome string, spans int)
}

// ExportSpans implements sdktrace.SpanExporter. Failures end here: the SDK would print each of them.
func (e *watchedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	outcome := Sent
	if err != nil {
		outcome = Failed
	}
	e.count(outcome, len(spans))
	e.status.Set(context.WithoutCancel(ctx), err)
	return nil
}

// within returns a context with a parent, a traceparent; without one spans begin a new trace.
func within(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

// parentOf returns the context of a span as a traceparent; empty: the span is not sampled.
func parentOf(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}
