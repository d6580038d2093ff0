package futurejobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// Rule is one version of a rule, as far as the engine needs it.
type Rule struct {
	ID      int32
	Version int32
	Name    string
	Entity  string
	Grid    Grid
	Limits  guards.Limits
	Handler checks.Handler
	// Finder does the lookup before the handler is called; nil: none.
	Finder checks.Finder

	// Allowance bounds what checks cost the node over time; nil: nothing does.
	Allowance Allowance

	// Labels returns the labels of alerts about a job; nil: none.
	Labels func(Job) map[string]string
	// CatchUp configures late jobs.
	CatchUp CatchUp
	// Deleted ends the rule's jobs without a check and without an alert.
	Deleted bool

	// Streams can resolve or change a job of this rule. A job is checked only once they are read past its slot.
	Streams []string
	// Early is how long events are remembered that are read before their trigger; 0: not at all, as all events are in
	// one stream.
	Early time.Duration
	// Scattered means that several streams contain triggers, so that an older trigger may be read after a newer one.
	Scattered bool
	// HeartbeatStreams are the sources of the rule's heartbeats: streams, and "" for pings. A heartbeat counts as missing
	// only if all of them were received without a gap; nil: the rule expects no heartbeats.
	HeartbeatStreams []string
	// Upcoming returns the slot of the rule's next check of a job, for the job's state at the time now. The slot may
	// be past. Zero: unknown. nil: always unknown.
	Upcoming func(j Job, now time.Time) time.Time
	// NamesTimes means that some of its steps have a wall-clock time.
	NamesTimes bool
	// NamesSince means that the start of a job is read from the event, by the sender's clock.
	NamesSince bool
	// ShiftState moves the times in the state of a job by a duration; nil: the state has none.
	ShiftState func(state json.RawMessage, by time.Duration) json.RawMessage
	// Closing drafts the alert that resolves a job's alerts; nil: none is raised.
	Closing func(j Job, text string) alerts.Draft
	// MaxSeverity is the severity of alerts about the check itself, not about the entity.
	MaxSeverity alerts.Severity
}

// CheckKind says what the duration of a check depends on.
type CheckKind string

// The kinds of checks.
const (
	CheckRule    CheckKind = "rule"    // the conditions of the rule only
	CheckLookup  CheckKind = "lookup"  // a source
	CheckHandler CheckKind = "handler" // a handler that does I/O
)

// CheckKinds are all kinds of checks.
var CheckKinds = []CheckKind{CheckRule, CheckLookup, CheckHandler}

// checkKind returns the kind of the rule's checks.
func (r *Rule) checkKind() CheckKind {
	switch {
	case r.Finder != nil:
		return CheckLookup
	case !isInline(r):
		return CheckHandler
	}
	return CheckRule
}

// labels returns the labels of an alert about a job.
func (r *Rule) labels(j Job) map[string]string {
	if r.Labels == nil {
		return nil
	}
	return r.Labels(j)
}

// afterSnooze returns the slot, or the first slot after the job's snooze if that is later.
func (r *Rule) afterSnooze(j Job, slot time.Time) time.Time {
	if slot.Before(j.SnoozedUntil) {
		return r.Grid.Up(j.SnoozedUntil)
	}
	return slot
}

// isSnoozed reports whether a snooze determined the job's next check: the time without the snooze is unknown.
func (r *Rule) isSnoozed(j Job) bool {
	return !j.SnoozedUntil.IsZero() && j.due().Equal(r.Grid.Up(j.SnoozedUntil))
}

// SnoozeDelays reports whether a snooze until the given time determines the next check of a job: a later check of the
// job stays at its time, unless an earlier snooze put it there.
func (r *Rule) SnoozeDelays(j Job, until time.Time) bool {
	return !j.due().After(r.Grid.Up(until)) || r.isSnoozed(j)
}

// notBeforeNextSlot returns the slot, or the first slot after now if the slot is past.
func (r *Rule) notBeforeNextSlot(slot, now time.Time) time.Time {
	if slot.After(now) {
		return slot
	}
	return r.Grid.After(now)
}

// checkOf returns the check of a job at the time now, as it is passed to the handler.
func (r *Rule) checkOf(j *Job, now time.Time) checks.Check {
	c := checks.Check{
		JobID: j.ID, Rule: r.Name, RuleVersion: int(r.Version), Entity: r.Entity, Key: j.Key,
		Event: j.Event, State: j.Known(), Since: j.Since, Slot: j.NextCheckAt, At: now,
		Count: j.CheckCount, Step: j.Step, AlertCount: len(j.Alerts), Pauses: j.Pauses, AckedUntil: j.AckedUntil,
	}
	if len(j.Alerts) > 0 {
		c.FirstAlertAt = alerts.TimeOf(j.Alerts[0])
	}
	return c
}

// Check calls the rule's handler for a job, inline, and decides. now is the database's time, not before the job's
// slot.
func (r *Rule) Check(ctx context.Context, j Job, now time.Time) Decision {
	d := Decision{Job: j}
	if d.decideLateOrDeleted(r, now) {
		return d
	}
	answer, err := r.answer(ctx, r.checkOf(&j, now))
	times := CheckTimes{PickedAt: now, StartedAt: now, CompletedAt: now}
	if err != nil {
		times.CompletedAt, times.FailedAt = time.Time{}, now
	}
	d.decide(r, times, answer, err, now)
	return d
}

// CheckNow checks a job at a person's request. It may end the job, by the effect it returns, and takes no step; ends
// is false if the job continues.
func (r *Rule) CheckNow(ctx context.Context, j Job, now time.Time) (effect Effect, ends bool, err error) {
	if isAtMostOnce(r) {
		return Effect{}, false, errHasSideEffects
	}
	ctx, cancel := context.WithTimeout(ctx, r.Limits.Timeout)
	defer cancel()
	c := r.checkOf(&j, now)
	c.Manual = true
	answer, err := r.answerNow(ctx, c)
	if err != nil || !answer.Next.IsZero() || answer.Outcome == checks.Exhausted {
		return Effect{}, false, err
	}
	end := End{Outcome: cmp.Or(answer.Outcome, checks.Cleared), Reason: "found by a manual check", State: answer.State}
	for _, draft := range answer.Alerts {
		if draft.Status == alerts.Resolved {
			end.Close = func(Job) alerts.Draft { return draft }
		}
	}
	return Effect{Rule: r, Ref: j.Ref, Rev: &j.Rev, Action: end}, true, nil
}

// CheckForTenant is CheckNow for a client that belongs to the rule's tenant. It returns a UsedUpError while the tenant's
// allowance is used up.
func (r *Rule) CheckForTenant(ctx context.Context, j Job, now time.Time) (effect Effect, ends bool, err error) {
	if a := r.Allowance; a != nil && a.IsUsedUp(now) {
		return Effect{}, false, &UsedUpError{Tenant: a.Tenant(), After: max(time.Second, a.RecoversIn(now))}
	}
	return r.CheckNow(ctx, j, now)
}

// errHasSideEffects means that a handler has side effects and must not run in a manual check: nothing would prevent a
// second run.
var errHasSideEffects = errors.New("the handler has side effects (at_most_once), so a manual check does not call it; it runs at the next check")

// errSourceBusy means that a source already has as many lookups as it allows.
var errSourceBusy = errors.New("the source is busy with other lookups; retry")

// answer does the lookup of one check, if the rule needs one, and calls the handler.
func (r *Rule) answer(ctx context.Context, c checks.Check) (checks.Answer, error) {
	if r.Finder == nil {
		return callHandler(ctx, r.Handler, c)
	}
	if !r.Finder.Enter() {
		return checks.Answer{}, errSourceBusy
	}
	found := lookUp(ctx, r.Finder, []checks.Check{c})[0]
	if found.Err != nil {
		return checks.Answer{}, found.Err
	}
	c.Queried, c.Found = true, found.Value
	return callHandler(ctx, r.Handler, c)
}

// answerNow is answer for a waiting client: a handler that ignores its timeout is abandoned.
func (r *Rule) answerNow(ctx context.Context, c checks.Check) (checks.Answer, error) {
	if r.Finder != nil || isInline(r) {
		return r.answer(ctx, c)
	}
	answer, _, err := callWithTimeout(ctx, r.Limits.Timeout, r.Handler, c)
	return answer, err
}

// Trial is the result of calling a handler with a made-up job.
type Trial struct {
	Answer   checks.Answer
	Err      error           // the reason why no answer was returned
	Breach   string          // why a guard would end a job with this answer; empty: no guard would
	Returned <-chan struct{} // closed when the handler has returned, perhaps much later
}

// Try calls the rule's handler once with a made-up job, at a person's request, without any effect on jobs. A handler
// with side effects is not called.
func (r *Rule) Try(ctx context.Context, j Job, now time.Time) Trial {
	if isAtMostOnce(r) {
		return Trial{Err: errTrialOnce, Returned: alreadyReturned}
	}
	c := r.checkOf(&j, now)
	c.Manual = true
	var t Trial
	t.Answer, t.Returned, t.Err = callWithTimeout(ctx, r.Limits.Timeout, r.Handler, c)
	if t.Err != nil || t.Answer.Next.IsZero() {
		return t
	}
	_, t.Breach = r.judge(t.Answer, c.Slot, c.Count+1)
	return t
}

// judge returns the guard that forbids the next time of an answer, with its explanation; guards.None: no guard does.
// count is the number of decided checks, including this one. The horizon does not bound a nominal time.
func (r *Rule) judge(answer checks.Answer, slot time.Time, count int) (breach guards.Breach, reason string) {
	limits := r.Limits
	if answer.Nominal {
		limits.Horizon = 0
	}
	if breach = limits.Judge(slot, answer.Next, count); breach != guards.None {
		reason = limits.Explain(breach, slot, answer.Next)
	}
	return breach, reason
}

// errTrialOnce means that a handler has side effects and must not run in a trial.
var errTrialOnce = errors.New("the handler has side effects (at_most_once), and a trial must have none; send an event to a rule that uses it")

// Patience returns how long after its slot a check may take: the rule's timeout if the check waits for a source or a
// handler, and zero if it only computes.
func (r *Rule) Patience() time.Duration {
	if r.Finder == nil && isInline(r) {
		return 0
	}
	return r.Limits.Timeout
}

// attemptsExhausted reports whether the number of undetermined checks in a row exceeds the attempts. A check with
// side effects is not retried.
func (r *Rule) attemptsExhausted(undecided int) bool {
	return isAtMostOnce(r) || r.Limits.Spent(undecided)
}

// second is the finest grid.
const second = Grid(time.Second)

// retryAt returns the next check after the undetermined check of j at the given time. While attempts are left, the retry is soon
// after a hiccup and does not wait for the next slot; an inline handler would fail the same way until then. Once they are spent,
// retries are a number of slots apart: the delay counts from the slot, and not from the moment of the check after it.
func (r *Rule) retryAt(j *Job, spent bool, now time.Time) time.Time {
	delay := r.retryDelay(j)
	switch {
	case spent:
		return r.notBeforeNextSlot(r.Grid.Up(r.Grid.After(now).Add(delay-time.Duration(r.Grid))), now)
	case r.Finder == nil && isInline(r):
		return r.Grid.After(now.Add(delay))
	}
	return min(r.Grid, second).After(now.Add(delay))
}

// maxRetryDelay is the longest time between two undetermined checks, unless slots are further apart.
const maxRetryDelay = 5 * time.Minute

// retryDelay returns how long to wait, before rounding to a slot, after the undetermined checks in a row of j: the
// rule's interval, doubled each time, while attempts are left; then one slot, two, four and so on.
func (r *Rule) retryDelay(j *Job) time.Duration {
	over := j.UndeterminedChecks - max(r.Limits.Attempts, 1)
	if over <= 0 {
		return min(r.Limits.Interval<<min(j.UndeterminedChecks-1, 16), Day) + time.Duration(float64(r.Limits.Jitter)*chance(j))
	}
	return min(time.Duration(r.Grid)<<min(over-1, 9), maxRetryDelay)
}

// chance returns a number from 0 to 1 that differs for each job and attempt, and is the same on every node.
func chance(j *Job) float64 {
	return float64(mix(uint64(j.ID)*31+uint64(j.UndeterminedChecks))>>11) / (1 << 53)
}

// outageIdle returns how long an outage of the rule affects no job before none is left that it could affect: each
// retries within maxRetryDelay, at a slot. Only then is a reachable source assumed to answer, since a host may accept
// connections and answer nothing.
func (r *Rule) outageIdle() time.Duration {
	if r.Limits.End {
		return maxRetryDelay
	}
	return maxRetryDelay + time.Duration(r.Grid) + outageSlack
}

// readThrough returns the time up to which all streams of the rule are read; zero: it has no streams. through was
// read before the jobs, so a job reflects every event before that time.
func (r *Rule) readThrough(all map[string]StreamProgress) (least time.Time) {
	for _, stream := range r.Streams {
		least = earliest(least, all[stream].Through)
	}
	return least
}

// receivingSince returns when the current gap-free period began for all streams of the rule's heartbeats; zero means
// no gap matters.
func (r *Rule) receivingSince(through map[string]StreamProgress) (since time.Time) {
	for _, topic := range r.HeartbeatStreams {
		since = latest(since, through[topic].ReceivingSince)
	}
	return since
}

// closing returns a CloseAlert with the given text, or nil if the rule raises no closing alert.
func (r *Rule) closing(text func(Job) string) CloseAlert {
	if r.Closing == nil {
		return nil
	}
	return func(j Job) alerts.Draft { return r.Closing(j, text(j)) }
}

// RuleReader provides the rules. Implementations are safe for concurrent use.
type RuleReader interface {
	// Rule returns one version of a rule, including older versions. An unreadable version is an error.
	Rule(ctx context.Context, id, version int32) (*Rule, error)
	// Revision returns the revision of the current rule set.
	Revision() int64
	// RuleChangedAt returns the revision of a rule's last change.
	RuleChangedAt(id int32) int64
	// NextSlot returns the first slot after t of any rule; zero: none.
	NextSlot(t time.Time) time.Time
	// CriticalRules returns the rules with a version that has a step of severity critical, in order.
	CriticalRules() []int32
	// Refresh reloads the rules if they changed.
	Refresh(ctx context.Context) error
}
