package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/internal/periodic"
	"deadman/internal/store"
	"deadman/rules"
)

// The timing of stall detection.
const (
	stallCheckInterval = 5 * time.Second // interval at which progress is saved
	resumeTimeout      = 3 * time.Second // maximum delay of a resuming sweep by the report of its gap
	steadyRounds       = 3               // consecutive rounds in which the sweep must have reached a time
)

// progressShard is the shard of the node that sends the heartbeat.
const progressShard = 0

// The topics of progress. Each stream's intake has its own.
const (
	sweepTopic  = "sweep"
	ingestTopic = "ingest/"
)

// stallDetector detects that the sweep or the intake of a stream stood still, and raises an alert: during the stall,
// if a node is running, and after it. A row for each topic holds its progress and advances only to times without a
// stall. Thus every node, even after a restart, reports the same beginning of a gap.
type stallDetector struct {
	store    *store.Store
	catalog  *rules.Catalog
	readers  func() []events.Status
	now      func() time.Time // the database's time
	after    time.Duration
	announce func(context.Context, alerts.SystemAlert) error
	log      *slog.Logger
	sweptTo  []time.Time // times up to which all shards were swept at the last rounds; used by Run alone
}

// Run runs checks until ctx ends.
func (b *stallDetector) Run(ctx context.Context) error {
	return periodic.RunAfter(ctx, stallCheckInterval, b.log, "stall detector", b.check)
}

// Resuming reports the gap of the sweep before the sweep resumes, while the missed due jobs can still be counted.
func (b *stallDetector) Resuming(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	all, err := b.store.Progress(ctx)
	if err == nil {
		err = b.reportStalls(ctx, all, b.now())
	}
	if err != nil && ctx.Err() == nil {
		b.log.Warn("whether the sweep stood still is unknown, and it continues", "err", err)
	}
}

// check is one comparison. Every node does it, because a broken node may be unable to report itself.
//
//  1. It reports each topic that stands still.
//  2. It advances each topic with progress: the sweep of all shards, known to every node by the leases, and the
//     streams read by this node.
func (b *stallDetector) check(ctx context.Context) error {
	all, err := b.store.Progress(ctx)
	if err != nil {
		return err
	}
	// Jobs that were due a moment ago may be running; they are not late.
	if err := b.reportStalls(ctx, all, b.now().Add(-maxSweepLag)); err != nil {
		return err
	}
	reached, err := b.currentProgress(ctx)
	if err != nil {
		return err
	}
	for _, seen := range all {
		if err := b.advance(ctx, seen, reached[seen.Topic]); err != nil {
			return err
		}
		delete(reached, seen.Topic)
	}
	for topic, to := range reached {
		if err := b.advance(ctx, store.Progress{Topic: topic}, to); err != nil {
			return err
		}
	}
	return nil
}

// currentProgress returns the progress known to this node, by topic.
func (b *stallDetector) currentProgress(ctx context.Context) (map[string]time.Time, error) {
	reached := map[string]time.Time{}
	for _, reader := range b.readers() {
		reached[ingestTopic+reader.Line] = reader.CaughtUp
	}
	through, whole, err := b.store.SweptByOthers(ctx, "")
	if whole && err == nil {
		if to := b.steady(through); !to.IsZero() {
			reached[sweepTopic] = to
		}
	}
	return reached, err
}

// steady records the time up to which all shards are swept, and returns the time reached at each of the last rounds;
// zero if they are too few. A job with a stream that is read a moment after its slot holds the sweep back only from
// then on, and the row must not have passed its slot.
func (b *stallDetector) steady(through time.Time) time.Time {
	if b.sweptTo = append(b.sweptTo, through); len(b.sweptTo) < steadyRounds {
		return time.Time{}
	}
	b.sweptTo = b.sweptTo[len(b.sweptTo)-steadyRounds:]
	return slices.MinFunc(b.sweptTo, time.Time.Compare)
}

// stalled reports whether a topic with the given progress is stalled at now. The sweep misses nothing before the next
// slot of any rule.
func (b *stallDetector) stalled(topic string, through, now time.Time) bool {
	if topic == sweepTopic {
		if through = b.catalog.NextSlot(through); through.IsZero() {
			return false
		}
	}
	return now.Sub(through) > b.after
}

// reportStalls reports stalled topics, with the number of affected jobs that were due by until. It forgets topics
// that no rule needs any more.
func (b *stallDetector) reportStalls(ctx context.Context, all []store.Progress, until time.Time) error {
	now, reads := b.now(), b.catalog.SubjectsByStream()
	for _, seen := range all {
		stream, isIngest := strings.CutPrefix(seen.Topic, ingestTopic)
		switch {
		case isIngest && reads[stream] == nil:
			if err := b.forget(ctx, seen); err != nil {
				return err
			}
		case seen.Still || b.stalled(seen.Topic, seen.Through, now):
			if _, _, err := b.markStalled(ctx, seen, now, until); err != nil {
				return err
			}
		}
	}
	return nil
}

// markStalled reports a stalled topic, with the number of affected jobs that were due by until. It marks the row
// first, so that the node that advances the topic closes the alert. ok is false if the topic advanced meanwhile.
func (b *stallDetector) markStalled(ctx context.Context, seen store.Progress, now, until time.Time) (noted store.Progress, ok bool, err error) {
	late, err := b.store.LateJobs(ctx, seen.Through, until, b.waitingRules(seen.Topic))
	if err != nil {
		return seen, false, err
	}
	noted, ok, err = b.store.MarkStalled(ctx, seen, late)
	if err != nil || !ok {
		return seen, false, err
	}
	r := b.stallAlert(noted, alerts.Firing, now)
	if seen.Topic == sweepTopic {
		if r.Text, err = b.named(ctx, r.Text, now); err != nil {
			return noted, false, err
		}
	}
	return noted, true, b.announce(ctx, r)
}

// named adds the shards that are behind at now, and their holders, to a text.
func (b *stallDetector) named(ctx context.Context, text string, now time.Time) (string, error) {
	leases, err := b.store.Leases(ctx)
	if err != nil {
		return text, err
	}
	nodes, err := b.store.Nodes(ctx)
	if err != nil {
		return text, err
	}
	var behind []int16
	for _, l := range leases {
		if l.Swept.IsZero() || b.stalled(sweepTopic, l.Swept, now) {
			behind = append(behind, l.Shard)
		}
	}
	if len(behind) == 0 {
		return text, nil
	}
	return text + "; behind: " + where(behind, leases, nodes), nil
}

// waitingRules returns the rules with jobs that depend on a topic; nil means all rules.
func (b *stallDetector) waitingRules(topic string) []int32 {
	if stream, isIngest := strings.CutPrefix(topic, ingestTopic); isIngest {
		return b.catalog.WaitingFor(stream)
	}
	return nil
}

// advance advances a topic. It first reports a gap. It does not advance to a time that is still stalled, and after a
// report not to one that would stall again within the next rounds, so that one gap raises one alert. Nor does it
// advance into the future: after a clock is set back, a reader briefly reports a position by the old time.
func (b *stallDetector) advance(ctx context.Context, seen store.Progress, to time.Time) error {
	now := b.now()
	limit := now
	if seen.Still {
		limit = now.Add(steadyRounds * stallCheckInterval)
	}
	if !to.After(seen.Through) || to.Sub(now) > stallCheckInterval || b.stalled(seen.Topic, to, limit) {
		return nil
	}
	if !seen.Still && to.Sub(seen.Through) < stallCheckInterval/2 {
		return nil // another node has just advanced it
	}
	if seen.Still || !seen.Through.IsZero() && b.stalled(seen.Topic, seen.Through, to) {
		noted, ok, err := b.markStalled(ctx, seen, to, to)
		if err != nil || !ok {
			return err
		}
		if err := b.announce(ctx, b.stallAlert(noted, alerts.Resolved, to)); err != nil {
			return err
		}
		seen = noted
	}
	_, err := b.store.Advance(ctx, seen, to)
	return err
}

// forget removes a stream that no rule names.
func (b *stallDetector) forget(ctx context.Context, seen store.Progress) error {
	if seen.Still {
		if err := b.announce(ctx, b.stallAlert(seen, alerts.Resolved, b.now())); err != nil {
			return err
		}
	}
	return b.store.ForgetProgress(ctx, seen.Topic)
}

// stallAlert returns the alert about a topic that was stalled until the given time.
func (b *stallDetector) stallAlert(seen store.Progress, status alerts.Status, until time.Time) alerts.SystemAlert {
	r := alerts.SystemAlert{
		Topic: seen.Topic, Step: alerts.GapStep, Status: status, Severity: alerts.Warning, Since: seen.Through, Count: seen.LateJobs,
	}
	if seen.LateJobs > 0 {
		r.Severity = alerts.Error
	}
	what, again := "due jobs of some shards were not decided", "jobs are decided again"
	if stream, isIngest := strings.CutPrefix(seen.Topic, ingestTopic); isIngest {
		name := futurejobs.LineText(stream)
		what, again = "the stream "+name+" was not read to its end", "the stream "+name+" is read again"
		r.Source, r.Labels = futurejobs.StreamOf(stream), map[string]string{"stream": futurejobs.StreamOf(stream)}
		if futurejobs.IsTenantsLine(stream) {
			r.Labels["line"] = "tenants"
		}
	}
	r.Text = fmt.Sprintf("%s from %s to %s, for %s; %s", what,
		seen.Through.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), until.Sub(seen.Through).Round(time.Second), lateJobsText(seen.LateJobs))
	if status == alerts.Resolved {
		r.Text = again + ": " + r.Text
	}
	return r
}

// lateJobsText returns the number of late jobs as text.
func lateJobsText(n int) string {
	switch {
	case n == 0:
		return "no job was late"
	case n == 1:
		return "1 job was late"
	case n < store.MaxLateJobs:
		return fmt.Sprintf("%d jobs were late", n)
	}
	return fmt.Sprintf("at least %d jobs were late", store.MaxLateJobs)
}
