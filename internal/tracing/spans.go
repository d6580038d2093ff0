package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// The names of spans.
const (
	receiveSpan = "receive event"
	startSpan   = "start job"
	checkSpan   = "check job"
	lookupSpan  = "look up"
	raiseSpan   = "raise alert"
	publishSpan = "publish alert"
	sendSpan    = "send notification"
)

// Received implements events.EventTracer. The span of an event is in the trace of its header traceparent, or of the
// attribute traceparent of its CloudEvent.
func (t *Tracer) Received(effects []futurejobs.Effect) (applied func(error)) {
	spans := make(map[*futurejobs.EventTrace]trace.Span)
	known := make(map[uint64]*futurejobs.EventTrace)
	for i := range effects {
		e := effects[i].Event
		if e == nil {
			continue
		}
		if e.Trace = known[e.Seq]; e.Trace != nil {
			continue
		}
		ctx, span := t.tracer.Start(within(context.Background(), parentIn(e.Header)), receiveSpan, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", e.Subject),
			attribute.String("messaging.message.id", e.ID), attribute.String("deadman.stream", e.Stream), attribute.Int64("deadman.sequence", int64(e.Seq)), //nolint:gosec // a sequence
		))
		e.Trace = &futurejobs.EventTrace{Parent: parentOf(ctx)}
		known[e.Seq], spans[e.Trace] = e.Trace, span
	}
	return func(err error) {
		if err != nil {
			return // the events are applied again
		}
		for of, span := range spans {
			started := make(map[futurejobs.StartedJob]bool)
			for _, job := range of.Started {
				if started[job] {
					continue
				}
				started[job] = true
				_, child := t.tracer.Start(trace.ContextWithSpan(context.Background(), span), startSpan, trace.WithAttributes(jobAttributes(job.Rule, job.Key)...))
				child.End()
			}
			span.End()
		}
	}
}

// parentIn returns the traceparent of an event's header; empty: none.
func parentIn(header map[string][]string) string {
	for _, wanted := range []string{"traceparent", "ce-traceparent"} {
		for name, values := range header {
			if len(values) > 0 && strings.EqualFold(name, wanted) {
				return values[0]
			}
		}
	}
	return ""
}

func jobAttributes(rule, key string) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("deadman.rule", rule), attribute.String("deadman.key", key)}
}

// Checked implements futurejobs.CheckTracer. The span of the check is a child of the event's, however long ago it was.
func (t *Tracer) Checked(c futurejobs.TracedCheck) (settled func(isSettled bool)) {
	last := c.Job.Last
	begun, ended := last.StartedAt, last.EndedAt()
	if begun.IsZero() {
		begun = last.PickedAt
	}
	if ended.IsZero() {
		ended = begun
	}
	ctx, span := t.tracer.Start(within(context.Background(), c.Job.Order.Trace), checkSpan, trace.WithTimestamp(begun), trace.WithAttributes(
		append(jobAttributes(c.Rule.Name, c.Job.Key), attribute.String("deadman.slot", c.Slot.UTC().Format(time.RFC3339)), attribute.String("deadman.result", c.Result))...))
	if !last.FailedAt.IsZero() {
		span.SetStatus(codes.Error, c.Reason)
	}
	if !c.LookupEnd.IsZero() && c.Rule.Finder != nil {
		_, lookup := t.tracer.Start(ctx, lookupSpan, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(begun),
			trace.WithAttributes(attribute.String("deadman.source", c.Rule.Finder.Source())))
		defer lookup.End(trace.WithTimestamp(c.LookupEnd))
	}
	raised := make([]trace.Span, len(c.Alerts))
	for i := range c.Alerts {
		a := &c.Alerts[i]
		var alert context.Context
		alert, raised[i] = t.tracer.Start(ctx, raiseSpan, trace.WithTimestamp(ended), trace.WithAttributes(alertAttributes(*a)...))
		a.Trace = parentOf(alert)
	}
	return func(isSettled bool) {
		if !isSettled {
			return // the job is checked again
		}
		for _, alert := range raised {
			alert.End()
		}
		span.End(trace.WithTimestamp(ended))
	}
}

func alertAttributes(a alerts.Alert) []attribute.KeyValue {
	return append(jobAttributes(a.Rule, a.Key), attribute.String("deadman.alert", a.ID.String()),
		attribute.String("deadman.status", string(a.Status)), attribute.String("deadman.severity", string(a.Severity)), attribute.String("deadman.step", a.Step))
}

// Publisher returns a publisher that records the publication of traced alerts by another one.
func (t *Tracer) Publisher(to alerts.Publisher) alerts.Publisher { return &publisher{t, to} }

// publisher records publications.
type publisher struct {
	tracer *Tracer
	to     alerts.Publisher
}

// Publish implements alerts.Publisher.
func (p *publisher) Publish(ctx context.Context, batch []alerts.Alert) (sent []alerts.Alert, err error) {
	spans := make(map[alerts.ID]trace.Span)
	for _, a := range batch {
		if a.Trace != "" {
			_, spans[a.ID] = p.tracer.tracer.Start(within(ctx, a.Trace), publishSpan, trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
				append(alertAttributes(a), attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", p.tracer.subject(a)))...))
		}
	}
	sent, err = p.to.Publish(ctx, batch)
	for _, a := range sent {
		if span := spans[a.ID]; span != nil {
			span.End()
			delete(spans, a.ID)
		}
	}
	for _, span := range spans {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
			span.End()
		}
	}
	return sent, err
}

// Sending begins the span of a message to a channel, in the trace of its first traced alert and with links to the others.
// parent is its context for the receiver; empty: the message is not traced. sent ends it, with the error of the channel.
func (t *Tracer) Sending(ctx context.Context, channel string, about []alerts.Alert) (parent string, sent func(error)) {
	var links []trace.Link
	for _, a := range about {
		if a.Trace == "" {
			continue
		}
		if parent == "" {
			parent = a.Trace
			continue
		}
		links = append(links, trace.LinkFromContext(within(ctx, a.Trace), jobAttributes(a.Rule, a.Key)...))
	}
	if parent == "" {
		return "", func(error) {}
	}
	ctx, span := t.tracer.Start(within(ctx, parent), sendSpan, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("deadman.channel", channel), attribute.Int("deadman.alerts", len(about))))
	return parentOf(ctx), func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
