package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// The bounds of the judge. They are those of promise P4 for a node that is well, and a bound of its own for the time after a
// fault: a lease, the longest pause between two attempts, and the two seconds of P4.
const (
	lateMost    = 2 * time.Second
	recoverMost = leaseFor + 5*time.Second + lateMost
	startMost   = 5 * time.Second
	tooClose    = 250 * time.Millisecond // events of two streams have no certain order within it
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

// expectation is one job that the events require.
type expectation struct {
	rule    orderRule
	key     string
	began   time.Time
	shipped time.Time // zero: never
	doubted bool      // the order of two events is uncertain
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
		j.judgeRule(r)
	}
	j.judgeStream()
	j.judgeCounts()
	for _, e := range j.ended {
		j.record("history", "%s %s of %s ended at %s: %s", e.Rule, e.Key, j.at(e.Since), j.at(e.EndedAt), e.Outcome)
	}
	return j.breaches, nil
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
		to := f.to
		switch f.kind {
		case slow[database], slow[streams]:
			to = to.Add(2 * slowMost) // of a call that began at the end
		case hang:
			to = to.Add(time.Second)
		}
		j.disturbed = append(j.disturbed, span{f.from, to})
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
func (j *judge) latest(due time.Time) time.Time {
	from, well := due, true
	for _, d := range j.disturbed {
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

// judgeRule judges the jobs of a rule.
func (j *judge) judgeRule(r orderRule) {
	byKey := make(map[string][]sentEvent)
	for _, e := range j.sent {
		byKey[e.key] = append(byKey[e.key], e)
	}
	known := make(map[string]bool)
	for key, events := range byKey {
		slices.SortStableFunc(events, func(a, b sentEvent) int { return a.At.Compare(b.At) })
		j.judgeLosses(r, key, events)
		isUnread := slices.ContainsFunc(events, func(e sentEvent) bool { return j.unread[event{e.Stream, e.At}] })
		for _, e := range j.expect(r, key, events) {
			known[e.key+e.began.String()] = true
			if e.doubted || isUnread {
				j.count("job not judged: an event was deleted, or two are too close")
				continue
			}
			j.judgeJob(e)
		}
	}
	for _, a := range j.raised {
		if a.Rule == r.name && !known[a.Key+a.Since.String()] {
			j.breach("alert %s %s of a job that no event began at %s", r.name, a.Key, j.at(a.Since))
		}
	}
	for _, e := range j.ended {
		if e.Rule == r.name && !known[e.Key+e.Since.String()] {
			j.breach("job %s %s that no event began at %s is in the history", r.name, e.Key, j.at(e.Since))
		}
	}
}

// expect returns the jobs that events of a key require. Where the order of the last check of a job and of an event is
// uncertain, the history shows if the event began a job.
func (j *judge) expect(r orderRule, key string, events []sentEvent) (all []expectation) {
	for i, e := range events {
		isClose := i > 0 && events[i-1].Stream != e.Stream && e.At.Sub(events[i-1].At) < tooClose
		var last *expectation
		if len(all) > 0 {
			last = &all[len(all)-1]
			last.doubted = last.doubted || isClose
		}
		switch e.Subject {
		case created:
			if last == nil || !last.shipped.IsZero() || j.isOver(*last, e) {
				all = append(all, expectation{rule: r, key: key, began: e.At, doubted: isClose})
			}
		case r.shippedSubject():
			if last != nil && last.shipped.IsZero() && !j.isOver(*last, e) {
				last.shipped = e.At
			}
		}
	}
	return all
}

// judgeLosses checks that an alert reports the loss of a first event of a key that began no job.
func (j *judge) judgeLosses(r orderRule, key string, events []sentEvent) {
	first := events[0]
	if !j.unread[event{first.Stream, first.At}] || first.Subject != created || len(j.outcomes(expectation{rule: r, key: key, began: first.At})) > 0 {
		return
	}
	j.count("event lost")
	if !slices.ContainsFunc(j.raised, func(a futurejobs.ListedAlert) bool { return a.Key == "stream/"+first.Stream }) {
		j.breach("%s %s began no job, its event of %s was deleted, and no alert says so", r.name, key, j.at(first.At))
	}
}

// isOver reports whether a job that was not shipped ended before an event. While its last check is due, the history shows it: an
// event that began a job found no other, and an event that resolved the job found it. The last check does not wait for triggers,
// so one that is read after it begins a job.
func (j *judge) isOver(e expectation, event sentEvent) bool {
	last := slotUp(e.began.Add(e.rule.steps[len(e.rule.steps)-1]), e.rule.slot)
	switch latest := j.latest(e.holdEnd(j.latest(last))); {
	case event.At.Before(e.holdEnd(last)) && (event.Subject != created || j.latest(event.At).Before(e.holdEnd(last))):
		return false
	case event.At.After(latest):
		return true
	}
	j.count("event while the last check is due")
	if event.Subject != created {
		return slices.Equal(j.outcomes(e), []checks.Outcome{checks.Exhausted})
	}
	return len(j.outcomes(expectation{rule: e.rule, key: e.key, began: event.At})) > 0
}

// outcomes returns the outcomes of the jobs in the history that are the expected one.
func (j *judge) outcomes(e expectation) (all []checks.Outcome) {
	for _, done := range j.ended {
		if done.Rule == e.rule.name && done.Key == e.key && done.Since.Equal(e.began) {
			all = append(all, done.Outcome)
		}
	}
	return all
}

// holdEnd returns when a job ends after its last step.
func (e expectation) holdEnd(step time.Time) time.Time {
	return slotUp(slotUp(step, e.rule.slot).Add(e.rule.hold), e.rule.slot)
}

// judgeJob judges the alerts and the end of one job.
func (j *judge) judgeJob(e expectation) {
	j.count("job")
	fired, resolved := j.alertsOf(e)
	for i, after := range e.rule.steps {
		j.judgeStep(e, i, slotUp(e.began.Add(after), e.rule.slot), fired)
	}
	j.judgeEnd(e, fired, resolved)
}

// alertsOf returns the firing alerts of a job by step, and the one that resolves them.
func (j *judge) alertsOf(e expectation) (fired map[string]futurejobs.ListedAlert, resolved *futurejobs.ListedAlert) {
	fired = make(map[string]futurejobs.ListedAlert)
	for i, a := range j.raised {
		if a.Rule != e.rule.name || a.Key != e.key || !a.Since.Equal(e.began) {
			continue
		}
		switch {
		case a.Status == alerts.Resolved && resolved == nil:
			resolved = &j.raised[i]
		case a.Status == alerts.Resolved:
			j.breach("%s resolves twice", e)
		default:
			if _, ok := fired[a.Step]; ok {
				j.breach("%s alerts twice at step %s", e, a.Step)
			}
			fired[a.Step] = a
		}
	}
	return fired, resolved
}

// judgeStep judges the alert of a step that is due at a time.
func (j *judge) judgeStep(e expectation, i int, due time.Time, fired map[string]futurejobs.ListedAlert) {
	a, ok := fired[fmt.Sprintf("step-%d", i)]
	latest := j.latest(due)
	if ok {
		j.count("alert")
		j.noteLateness(a.DecidedAt.Sub(due), latest.Sub(due) == lateMost)
		switch {
		case a.DecidedAt.Before(due):
			j.breach("%s alerts at step %d %s before its slot", e, i, due.Sub(a.DecidedAt))
		case a.DecidedAt.After(latest):
			j.breach("%s alerts at step %d %s after its slot, at most %s are allowed", e, i, a.DecidedAt.Sub(due), latest.Sub(due))
		case !e.shipped.IsZero() && e.shipped.Before(due):
			j.breach("%s alerts at step %d, which is due at %s, although the order was shipped at %s", e, i, j.at(due), j.at(e.shipped))
		}
		return
	}
	switch {
	case !e.shipped.IsZero() && e.shipped.Before(latest):
		j.count("step not taken, the order was shipped")
	case i+1 < len(e.rule.steps) && !slotUp(e.began.Add(e.rule.steps[i+1]), e.rule.slot).After(latest):
		j.count("step skipped, the next one was due")
	default:
		j.breach("%s does not alert at step %d, which is due at %s", e, i, j.at(due))
	}
}

// latenesses are the upper ends of the classes in which the lateness of alerts is counted.
var latenesses = []time.Duration{500 * time.Millisecond, lateMost, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// noteLateness counts an alert by its lateness.
func (j *judge) noteLateness(late time.Duration, well bool) {
	when := "after a fault"
	if well {
		when = "in health"
	}
	for _, most := range latenesses {
		if late <= most {
			j.count(fmt.Sprintf("alert %s, late by at most %4.1f s", when, most.Seconds()))
			return
		}
	}
}

// judgeEnd judges the outcome of a job and the alert that resolves the others.
func (j *judge) judgeEnd(e expectation, fired map[string]futurejobs.ListedAlert, resolved *futurejobs.ListedAlert) {
	switch {
	case resolved == nil && !e.shipped.IsZero() && len(fired) > 0:
		j.breach("%s does not resolve its %d alerts", e, len(fired))
	case resolved != nil && e.shipped.IsZero():
		j.breach("%s resolves its alerts, and was not shipped", e)
	case resolved != nil && resolved.DecidedAt.Before(e.shipped):
		j.breach("%s resolves its alerts before it was shipped", e)
	case resolved != nil && resolved.DecidedAt.After(j.latest(e.shipped)):
		j.breach("%s resolves its alerts %s late", e, resolved.DecidedAt.Sub(e.shipped))
	}
	ends := j.outcomes(e)
	want := checks.Exhausted
	if !e.shipped.IsZero() {
		want = checks.Resolved
	}
	if !slices.Equal(ends, []checks.Outcome{want}) {
		j.breach("%s has the outcomes %v, want %s once", e, ends, want)
	}
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
func (j *judge) at(t time.Time) string { return t.Sub(j.plan.begin).Round(time.Millisecond).String() }

func (e expectation) String() string {
	return fmt.Sprintf("%s %s of %s", e.rule.name, e.key, e.began.Format("15:04:05.000"))
}
