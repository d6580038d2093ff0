package server

import (
	"context"
	"maps"
	"slices"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/rules"
)

// restoreReport describes the losses of a database that went back.
type restoreReport struct {
	store   *store.Store
	catalog *rules.Catalog
	info    func(ctx context.Context, stream string) (events.Info, error)
}

// text has the streams that are read again, from cursors on, and the losses. Without cursors it reads the current ones.
func (r restoreReport) text(ctx context.Context, cursors map[string]futurejobs.Cursor) (_ string, err error) {
	if cursors == nil {
		if cursors, err = r.store.Cursors(ctx); err != nil {
			return "", err
		}
	}
	var again []alerts.ReadAgain
	for _, line := range slices.Sorted(maps.Keys(r.catalog.SubjectsByStream())) {
		info, _ := r.info(ctx, futurejobs.StreamOf(line)) // without an answer the end is unknown
		again = append(again, alerts.ReadAgain{Stream: futurejobs.LineText(line), After: cursors[line].LastSeq, Last: info.LastSeq})
	}
	return alerts.ReadAgainText(again) + "Events that a stream does not have any more are lost, and so is what was answered over HTTP since then: " +
		"jobs, pings, acknowledgements, snoozes, mutes, cancellations, rules and tokens; send them again, then close this alert", nil
}

// notedPublisher notes the alerts that it publishes for the comparison.
type notedPublisher struct {
	alerts.Publisher
	noted *comparison
}

// Publish implements alerts.Publisher.
func (p notedPublisher) Publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	sent, err := p.Publisher.Publish(ctx, batch)
	p.noted.notePublished(sent)
	return sent, err
}
