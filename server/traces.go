package server

import (
	"context"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/notify"
	"deadman/internal/tracing"
)

// lastSpansTimeout bounds the export of the last spans of a node that stops.
const lastSpansTimeout = 2 * time.Second

// traces connects the components of a node to its tracer. Without a tracer they record nothing.
type traces struct{ tracer *tracing.Tracer }

// openTraces creates a tracer if the settings or, with byEnv, the variables OTEL_EXPORTER_OTLP_… name a collector.
func openTraces(ctx context.Context, o tracing.Options, byEnv bool) (t traces, err error) {
	if o.Endpoint == "" && !byEnv {
		return t, nil
	}
	t.tracer, err = tracing.New(ctx, o)
	return t, err
}

// connect makes events and checks traced.
func (t traces) connect(intake *events.Intake, sweeper *futurejobs.Sweeper) {
	if t.tracer != nil {
		intake.Tracer, sweeper.Tracer = t.tracer, t.tracer
	}
}

// publisher returns a publisher that records the publications of another one.
func (t traces) publisher(to alerts.Publisher) alerts.Publisher {
	if t.tracer == nil {
		return to
	}
	return t.tracer.Publisher(to)
}

// sending returns the function that traces messages; nil: none are traced.
func (t traces) sending() notify.BeginTrace {
	if t.tracer == nil {
		return nil
	}
	return t.tracer.Sending
}

// close exports the last spans. Those that a collector does not take in time are lost.
func (t traces) close() {
	if t.tracer == nil {
		return
	}
	last, cancel := context.WithTimeout(context.Background(), lastSpansTimeout)
	defer cancel()
	_ = t.tracer.Close(last)
}
