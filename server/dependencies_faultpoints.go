//go:build faultpoints

package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/internal/bus"
	"deadman/internal/failpoints"
	"deadman/internal/store"
	"deadman/rules"
)

// The database, the broker and the sources as seen by the sweep, the intake, the ticks, the relay and rules, with the
// injected bugs. Each bug breaks a promise on purpose: the fault campaign proves with them that its checks detect
// violations.
func queue(s *store.Store) futurejobs.Queue { return buggyQueue{s} }
func jobStoreOf(s *store.Store) jobStore    { return buggyJobStore{s} }
func outbox(s *store.Store) alerts.Outbox   { return buggyOutbox{s} }

func publisher(p *bus.AlertPublisher) alerts.Publisher { return buggyPublisher{p} }

// databaseClock returns the clock of the database in the node's folder, shifted by the campaign's offset.
func databaseClock(Config) func() time.Time {
	return func() time.Time { return time.Now().Add(failpoints.Offset()) }
}

func lookups(s sourceSet) rules.Sources { return buggySources{s} }

type buggyJobStore struct{ *store.Store }

// Apply implements futurejobs.EffectStore.
func (l buggyJobStore) Apply(ctx context.Context, b futurejobs.EffectBatch) (futurejobs.ApplyResult, error) {
	if failpoints.BugEnabled(failpoints.CursorFirst) {
		first := b
		first.Effects, first.DeadLetters = nil, nil
		if done, err := l.Store.Apply(ctx, first); err != nil {
			return done, err
		}
		b.After = b.Last
	}
	if failpoints.BugEnabled(failpoints.NoCursor) {
		ctx = context.WithoutCancel(ctx) // also ignore that another node now reads the stream
	}
	done, err := l.Store.Apply(ctx, b)
	for errors.Is(err, futurejobs.ErrCursorMoved) && failpoints.BugEnabled(failpoints.NoCursor) {
		now, _, failed := l.Cursor(ctx, b.Stream)
		if failed != nil {
			return done, failed
		}
		b.After, b.Last = now.LastSeq, max(b.Last, now.LastSeq)
		done, err = l.Store.Apply(ctx, b)
	}
	return done, err
}

type buggyQueue struct{ *store.Store }

// Settle implements futurejobs.Queue.
func (q buggyQueue) Settle(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	switch {
	case failpoints.BugEnabled(failpoints.NoFence):
		return q.unfenced(ctx, s)
	case failpoints.BugEnabled(failpoints.AlertsApart):
		return q.settleAlertsSeparately(ctx, s)
	}
	return q.Store.Settle(ctx, s)
}

// unfenced settles with the current epochs of the shards, regardless of the holder.
func (q buggyQueue) unfenced(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	table, err := q.Leases(ctx)
	if err != nil {
		return futurejobs.Settled{}, err
	}
	for i, h := range s.Held {
		for _, l := range table {
			if l.Shard == h.Shard {
				s.Held[i].Epoch = l.Epoch
			}
		}
	}
	return q.Store.Settle(ctx, s)
}

// settleAlertsSeparately settles first without the alerts of continuing jobs, and writes these in a second
// settlement.
func (q buggyQueue) settleAlertsSeparately(ctx context.Context, s futurejobs.Settlement) (futurejobs.Settled, error) {
	second := futurejobs.Settlement{Held: s.Held, RuleSet: s.RuleSet}
	s.Decisions = slices.Clone(s.Decisions)
	for i, d := range s.Decisions {
		if d.Ends() || len(d.Alerts) == 0 {
			continue
		}
		silent, later := *d, *d // the decisions belong to the sweep
		silent.Alerts = nil
		later.Job.Rev++
		s.Decisions[i], second.Decisions = &silent, append(second.Decisions, &later)
	}
	settled, err := q.Store.Settle(ctx, s)
	if err != nil || len(second.Decisions) == 0 {
		return settled, err
	}
	failpoints.Point("settle.middle")
	_, err = q.Store.Settle(ctx, second)
	return settled, err
}

// ReadThrough implements futurejobs.Queue.
func (q buggyQueue) ReadThrough(ctx context.Context) (map[string]futurejobs.StreamProgress, error) {
	through, err := q.Store.ReadThrough(ctx)
	if failpoints.BugEnabled(failpoints.NoReadThrough) {
		for stream := range through {
			through[stream] = futurejobs.StreamProgress{Through: time.Now()}
		}
	}
	return through, err
}

type buggyOutbox struct{ *store.Store }

// Unpublished implements alerts.Outbox.
func (o buggyOutbox) Unpublished(ctx context.Context, shards []int16, limit int, without []string) (batch []alerts.Alert, more bool, err error) {
	batch, more, err = o.Store.Unpublished(ctx, shards, limit, without)
	if err == nil && len(batch) > 0 && failpoints.BugEnabled(failpoints.MarkFirst) {
		err = o.MarkPublished(ctx, batch)
	}
	return batch, more, err
}

type buggyPublisher struct{ *bus.AlertPublisher }

// Publish implements alerts.Publisher.
func (p buggyPublisher) Publish(ctx context.Context, batch []alerts.Alert) ([]alerts.Alert, error) {
	sent, err := p.AlertPublisher.Publish(ctx, batch)
	if err != nil && failpoints.BugEnabled(failpoints.ForgetsUnacked) {
		return batch, nil
	}
	return sent, err
}

type buggySources struct{ sourceSet }

// Source implements rules.Sources.
func (s buggySources) Source(name string) (rules.Source, bool) {
	source, ok := s.sourceSet.Source(name)
	return buggySource{source}, ok
}

type buggySource struct{ rules.Source }

// Query implements rules.Source.
func (s buggySource) Query(ctx context.Context, timeout time.Duration, q lookup.Question, queries []lookup.KeyQuery) []checks.Finding {
	found := s.Source.Query(ctx, timeout, q, queries)
	for i, f := range found {
		var outage *checks.Outage
		switch {
		case failpoints.BugEnabled(failpoints.OutageAbsent) && errors.As(f.Err, &outage):
			found[i] = checks.Finding{}
		case failpoints.BugEnabled(failpoints.LastKnown) && f.Err != nil:
			found[i] = checks.Finding{Value: json.RawMessage(`{}`)} // nothing changed
		}
	}
	return found
}
