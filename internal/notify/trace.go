package notify

import (
	"context"
	"errors"

	"deadman/alerts"
)

// BeginTrace begins the trace of a message about alerts to a channel. parent is its context, as a traceparent, and empty if no
// alert is traced; sent ends it with the error of the channel.
type BeginTrace func(ctx context.Context, channel string, about []alerts.Alert) (parent string, sent func(error))

// send sends a message, and records it in the trace of its alerts.
func (b BeginTrace) send(ctx context.Context, channel Channel, m Message) error {
	if b == nil {
		return channel.Send(ctx, m)
	}
	parent, sent := b(ctx, m.Channel, m.Alerts)
	m.Trace = parent
	err := channel.Send(ctx, m)
	sent(err)
	if err != nil && parent != "" {
		err = &tracedError{err, parent}
	}
	return err
}

// tracedError is the error of a message with a trace.
type tracedError struct {
	error
	trace string // a traceparent
}

func (e *tracedError) Unwrap() error { return e.error }

// traceOf returns the trace of a refused message; empty: none.
func traceOf(refused error) string {
	var traced *tracedError
	if !errors.As(refused, &traced) {
		return ""
	}
	return traced.trace
}
