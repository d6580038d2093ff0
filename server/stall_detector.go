package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
	"deadman/internal/events"
	"deadman/internal/store"
	"deadman/rules"
)

// When something is blind, and how that is found out.
const (
	stallAfter         = time.Minute     // of standing still, beside a third of the lease
	stallCheckInterval = 5 * time.Second // how far it came is written down
	resumeTimeout      = 3 * time.Second // the sweep waits for the look at what it missed
	steadyLooks        = 3               // at which the sweep has to have come so far
)

// progressShard is the shard whose holder sends the heartbeat.
const progressShard = 0

// The topics of progress. The intake of each stream is one of its own.
const (
	sweepTopic  = "sweep"
	intakeTopic = "intake/"
)

// blindStep is the step of the alerts about what was blind.
const blindStep = "blind"

// stallDetector finds out when the sweep or the intake of a stream stood still, and says so: while it
// is so, as far as somebody is there to say it, and when it is over. What is behind it is a
// row for each, which is moved on only to where nothing is blind. So whoever looks, and
// after whatever restart, it began when the row says.
type stallDetector struct {
	store  *store.Store
	book   *rules.Catalog
	taps   func() []events.Status
	now    func() time.Time // the database's time
	after  time.Duration
	remark func(context.Context, alerts.SystemAlert) error
	log    *slog.Logger
	looks  []time.Time // how far all shards were swept at the last looks; used by Run alone
}

// Run looks until ctx ends.
func (b *stallDetector) Run(ctx context.Context) error {
	r := rounds{
		every: stallCheckInterval, do: b.check, log: b.log, level: slog.LevelWarn,
		failed: "how far the sweep and the intake came cannot be written down", works: "how far the sweep and the intake came is written down again",
	}
	return r.Run(ctx)
}

// Resuming looks at what the sweep missed, before it goes on: what was due is still there to
// be counted.
func (b *stallDetector) Resuming(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	all, err := b.store.Progress(ctx)
	if err == nil {
		err = b.reportStalls(ctx, all, b.now())
	}
	if err != nil && ctx.Err() == nil {
		b.log.Warn("whether the sweep was blind cannot be looked at before it goes on", "err", err)
	}
}

// check is one comparison. Every node does it: a broken node may be unable to report itself.
//
//  1. each topic that stands still is reported;
//  2. each topic that came further is moved on: how far all shards are swept, which their leases tell every
//     node, and the streams that this node reads.
func (b *stallDetector) check(ctx context.Context) error {
	all, err := b.store.Progress(ctx)
	if err != nil {
		return err
	}
	// What was due a moment ago may be in hand; it is not late.
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

// currentProgress is how far what this node knows of came, by topic.
func (b *stallDetector) currentProgress(ctx context.Context) (map[string]time.Time, error) {
	reached := map[string]time.Time{}
	for _, tap := range b.taps() {
		reached[intakeTopic+tap.Stream] = tap.CaughtUp
	}
	through, whole, err := b.store.SweptByOthers(ctx, "")
	if whole && err == nil {
		if to := b.steady(through); !to.IsZero() {
			reached[sweepTopic] = to
		}
	}
	return reached, err
}

// steady takes in how far all shards are swept, and returns how far they were at each of the last looks; zero: there
// were too few. A job whose stream is read a moment after its slot holds the sweep back from then on alone, and the row
// must not have passed it.
func (b *stallDetector) steady(through time.Time) time.Time {
	if b.looks = append(b.looks, through); len(b.looks) < steadyLooks {
		return time.Time{}
	}
	b.looks = b.looks[len(b.looks)-steadyLooks:]
	return slices.MinFunc(b.looks, time.Time.Compare)
}

// stalled reports whether a topic that came through to an instant is blind at another. The
// sweep misses nothing before the next slot of any rule.
func (b *stallDetector) stalled(topic string, through, now time.Time) bool {
	if topic == sweepTopic {
		if through = b.book.NextSlot(through); through.IsZero() {
			return false
		}
	}
	return now.Sub(through) > b.after
}

// reportStalls says what stands still, with how many jobs wait for it that were due by until. What
// no rule needs any more is forgotten.
func (b *stallDetector) reportStalls(ctx context.Context, all []store.Progress, until time.Time) error {
	now, reads := b.now(), b.book.SubjectsByStream()
	for _, seen := range all {
		stream, isIntake := strings.CutPrefix(seen.Topic, intakeTopic)
		switch {
		case isIntake && reads[stream] == nil:
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

// markStalled says that a topic stands still, with how many jobs wait for it that were due by
// until. The row is marked first: what is marked is closed when it moves on, whoever moves it.
// ok is false where it moved meanwhile.
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
	return noted, true, b.remark(ctx, r)
}

// named adds to a text which shards are behind at the time now, and which nodes hold them.
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

// waitingRules are the rules whose jobs wait for a topic; nil: those of all rules do.
func (b *stallDetector) waitingRules(topic string) []int32 {
	if stream, isIntake := strings.CutPrefix(topic, intakeTopic); isIntake {
		return b.book.WaitingFor(stream)
	}
	return nil
}

// advance moves a topic on. Where it was blind, that is reported first. It is not moved to where it still is blind, and
// once reported, not to where it would be blind again within the next looks: one time of blindness is one alert. Nor is
// it moved into the future: after a clock is set back, a reader reports a position by the old time for a moment.
func (b *stallDetector) advance(ctx context.Context, seen store.Progress, to time.Time) error {
	now := b.now()
	limit := now
	if seen.Still {
		limit = now.Add(steadyLooks * stallCheckInterval)
	}
	if !to.After(seen.Through) || to.Sub(now) > stallCheckInterval || b.stalled(seen.Topic, to, limit) {
		return nil
	}
	if !seen.Still && to.Sub(seen.Through) < stallCheckInterval/2 {
		return nil // another node has moved it just now
	}
	if seen.Still || !seen.Through.IsZero() && b.stalled(seen.Topic, seen.Through, to) {
		noted, ok, err := b.markStalled(ctx, seen, to, to)
		if err != nil || !ok {
			return err
		}
		if err := b.remark(ctx, b.stallAlert(noted, alerts.Resolved, to)); err != nil {
			return err
		}
		seen = noted
	}
	_, err := b.store.Advance(ctx, seen, to)
	return err
}

// forget forgets a stream that no rule names.
func (b *stallDetector) forget(ctx context.Context, seen store.Progress) error {
	if seen.Still {
		if err := b.remark(ctx, b.stallAlert(seen, alerts.Resolved, b.now())); err != nil {
			return err
		}
	}
	return b.store.ForgetProgress(ctx, seen.Topic)
}

// stallAlert is what is said of a topic that was blind until an instant.
func (b *stallDetector) stallAlert(seen store.Progress, status alerts.Status, until time.Time) alerts.SystemAlert {
	r := alerts.SystemAlert{
		Topic: seen.Topic, Step: blindStep, Status: status, Severity: alerts.Warning, Since: seen.Through, Count: seen.Late,
	}
	if seen.Late > 0 {
		r.Severity = alerts.Error
	}
	what, again := "due jobs of some shards were not decided", "jobs are decided again"
	if stream, isIntake := strings.CutPrefix(seen.Topic, intakeTopic); isIntake {
		what, again = "the stream "+stream+" was not read to its end", "the stream "+stream+" is read again"
		r.Source, r.Labels = stream, map[string]string{"stream": stream}
	}
	r.Text = fmt.Sprintf("%s from %s to %s, for %s; %s", what,
		seen.Through.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), until.Sub(seen.Through).Round(time.Second), lateJobs(seen.Late))
	if status == alerts.Resolved {
		r.Text = again + ": " + r.Text
	}
	return r
}

// lateJobs says how many jobs were late.
func lateJobs(n int) string {
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
