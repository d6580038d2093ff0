package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
)

// The bounds of the judge. They are those of promise P4 for a node that is well, and a bound of its own for the time after a
// fault: a lease, the longest pause between two attempts, and the two seconds of P4.
const (
	lateMost    = 2 * time.Second
	recoverMost = leaseFor + 5*time.Second + lateMost
	startMost   = 5 * time.Second
	tooClose    = 250 * time.Millisecond // events of two streams have no certain order within it
	skewMost    = 95 * time.Millisecond  // an event of another stream that is older than its trigger by this much belongs to it
)

// judge compares what deadman decided with what the events require. It shares no code with the engine: it reads the plan, the
// events that the streams stored, and the lists of jobs and alerts.
type judge struct {
	*deployment
	disturbed []span         // by faults and slow deliveries, ordered
	unread    map[event]bool // deleted events that may have been unread
	pending   []futurejobs.ListedJob
	ended     []futurejobs.EndedJob
	raised    []futurejobs.ListedAlert
	breaches  []string
}

// span is a time with a disturbance.
type span struct{ from, to time.Time }

// event identifies an event.
type event struct {
	stream string
	at     time.Time
}

// judgeDeployment returns the breaches of a deployment at its end.
func judgeDeployment(ctx context.Context, w *deployment) ([]string, error) {
	j := &judge{deployment: w}
	if err := j.read(ctx); err != nil {
		return nil, err
	}
	j.findDisturbances()
	j.findUnread()
	for _, r := range w.plan.rules {
		j.judgeRule(r.name)
	}
	for _, r := range w.plan.ticking {
		j.judgeTicks(r)
	}
	for _, r := range w.plan.withHeartbeats {
		j.judgeBeats(r)
	}
	for _, r := range w.plan.withConditions {
		j.judgeConditions(r)
	}
	for _, r := range w.plan.withStored {
		if err := j.judgeStored(ctx, r); err != nil {
			return nil, err
		}
	}
	for _, r := range w.plan.withPings {
		j.judgePings(r)
	}
	j.judgeStream()
	j.judgeCounts()
	for _, e := range j.ended {
		j.record("history", "%s %s of %s ended at %s: %s", e.Rule, e.Key, j.at(e.Since), j.at(e.EndedAt), e.Outcome)
	}
	return append(j.breaches, w.ledger.breaches...), nil
}

func (j *judge) breach(format string, args ...any) {
	j.breaches = append(j.breaches, fmt.Sprintf(format, args...))
}

// read reads the lists of the database.
func (j *judge) read(ctx context.Context) error {
	f := futurejobs.Filter{Limit: futurejobs.MaxLimit}
	pending, err := j.store.Jobs(ctx, f)
	if err != nil {
		return err
	}
	ended, err := j.store.History(ctx, f)
	if err != nil {
		return err
	}
	raised, err := j.store.Alerts(ctx, f)
	if err != nil {
		return err
	}
	if pending.Next+ended.Next+raised.Next != "" {
		return fmt.Errorf("more than %d jobs or alerts", futurejobs.MaxLimit)
	}
	j.pending, j.ended, j.raised = pending.Items, ended.Items, raised.Items
	return nil
}

// findDisturbances collects the times in which a decision may be late.
func (j *judge) findDisturbances() {
	j.disturbed = []span{{j.plan.begin, j.plan.begin.Add(startMost)}}
	for _, f := range j.plan.faults {
		j.disturbed = append(j.disturbed, span{f.from, f.lastEffect()})
	}
	for _, e := range j.plan.events {
		if e.lag > 0 {
			j.disturbed = append(j.disturbed, span{e.at, e.at.Add(time.Duration(e.refusals)*time.Second + e.lag)})
		}
	}
	slices.SortFunc(j.disturbed, func(a, b span) int { return a.from.Compare(b.from) })
}

// findUnread collects the deleted events that may have been unread.
func (j *judge) findUnread() {
	j.unread = make(map[event]bool)
	for _, d := range j.cuts {
		for _, e := range d.events {
			if j.latest(e.At).After(d.at) {
				j.unread[event{e.Stream, e.At}] = true
			}
		}
	}
}

// latest returns when something that is due at a time is done at the latest.
func (j *judge) latest(due time.Time) time.Time { return latest(due, j.disturbed) }

// latest returns when something that is due at a time is done at the latest, with ordered disturbances.
func latest(due time.Time, disturbed []span) time.Time {
	from, well := due, true
	for _, d := range disturbed {
		if !d.from.After(from.Add(recoverMost)) && d.to.Add(recoverMost).After(from) {
			well = false
			from = later(from, d.to)
		}
	}
	if well {
		return due.Add(lateMost)
	}
	return from.Add(recoverMost)
}

// judgeStream compares the stream of alerts with the decisions: each alert once, those of a job in the order of their decisions.
func (j *judge) judgeStream() {
	decided := make(map[alerts.ID]futurejobs.ListedAlert)
	for _, a := range j.raised {
		decided[a.ID] = a
		if !j.broker.has[a.ID] {
			j.breach("the stream of alerts lacks an alert of %s %s", a.Rule, a.Key)
		}
		if a.Entity != "order" {
			j.count("alert about " + a.Entity)
			if len(j.unread) == 0 && !slices.ContainsFunc(j.cuts, func(d deletion) bool { return d.recreates }) {
				j.breach("an alert about %s, and nothing was lost: %s", a.Key, a.Text)
			}
			j.record("alert", "%s %s at %s: %s", a.Rule, a.Key, j.at(a.DecidedAt), a.Text)
		}
	}
	last := make(map[string]time.Time)
	for _, s := range j.broker.alerts {
		a, ok := decided[s.ID]
		if !ok {
			j.breach("the stream has an alert of %s %s that was not decided", s.Rule, s.Key)
			continue
		}
		of := a.Rule + " " + a.Key
		if a.DecidedAt.Before(last[of]) {
			j.breach("the alerts of %s are in another order than their decisions", of)
		}
		last[of] = a.DecidedAt
	}
}

// judgeCounts checks that each job that began is pending or in the history.
func (j *judge) judgeCounts() {
	for _, p := range j.pending {
		j.breach("job %s %s is pending at the end, its next check is at %s", p.Rule, p.Key, j.at(p.NextCheckAt))
	}
	slices.SortFunc(j.ended, func(a, b futurejobs.EndedJob) int { return cmp.Compare(a.ID, b.ID) })
	for i := range j.ended {
		if i > 0 && j.ended[i].ID == j.ended[i-1].ID {
			j.breach("job %d is in the history twice", j.ended[i].ID)
		}
	}
}

// at returns a time as in the story.
func (j *judge) at(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Sub(j.plan.begin).Round(time.Millisecond).String()
}
