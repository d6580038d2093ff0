package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	futurejobs "deadman/future_jobs"
)

// The content types of CloudEvents 1.0 in structured mode, according to its NATS and HTTP bindings. In binary mode the
// body is the data already, and its attributes are headers ce-*.
const (
	structuredType = "application/cloudevents+json"
	batchType      = "application/cloudevents-batch+json"
)

// openEvent unwraps an event that came in an envelope: the body is its data, and its attributes are headers as in
// binary mode.
func openEvent(e futurejobs.Event) (futurejobs.Event, error) {
	switch envelopeType(e.Header) {
	case structuredType:
	case batchType:
		return e, fmt.Errorf("batches of CloudEvents are not supported; send the events one by one, as %s", structuredType)
	default:
		return e, nil
	}
	var envelope cloudevents.Event
	if err := json.Unmarshal(e.Data, &envelope); err != nil {
		return e, fmt.Errorf("not a valid CloudEvent, although the Content-Type is that of one: %w", err)
	}
	if err := envelope.Validate(); err != nil {
		return e, fmt.Errorf("not a valid CloudEvent, although the Content-Type is that of one: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	e.ID, e.Data, e.Header = envelope.ID(), envelope.Data(), attributes(e.Header, envelope)
	return e, nil
}

// envelopeType returns the CloudEvents type of a header, in lower case and without its parameters; empty if the header
// has none.
func envelopeType(header map[string][]string) string {
	for name, values := range header {
		if !strings.EqualFold(name, "content-type") || len(values) == 0 || !strings.Contains(strings.ToLower(values[0]), "cloudevents") {
			continue
		}
		if kind, _, err := mime.ParseMediaType(values[0]); err == nil {
			return kind
		}
	}
	return ""
}

// attributes returns the headers of an event whose envelope was opened.
func attributes(header map[string][]string, envelope cloudevents.Event) map[string][]string {
	opened := maps.Clone(header)
	maps.DeleteFunc(opened, func(name string, _ []string) bool { return strings.EqualFold(name, "content-type") })
	set := func(name, value string) {
		if value != "" {
			opened[name] = []string{value}
		}
	}
	set("content-type", envelope.DataContentType())
	set("ce-specversion", envelope.SpecVersion())
	set("ce-id", envelope.ID())
	set("ce-type", envelope.Type())
	set("ce-source", envelope.Source())
	set("ce-subject", envelope.Subject())
	set("ce-dataschema", envelope.DataSchema())
	if at := envelope.Time(); !at.IsZero() {
		set("ce-time", at.Format(time.RFC3339Nano))
	}
	for name, value := range envelope.Extensions() {
		set("ce-"+name, fmt.Sprint(value))
	}
	return opened
}
