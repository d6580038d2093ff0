// Package rules gives rule documents their meaning: the events that start a job, the events that end it, and the alerts that
// it raises in between. It has the registry of the saved rules.
package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/guards"
)

// Rule is one version of a rule, compiled. It is safe for concurrent use.
type Rule struct {
	document document.Document
	engine   futurejobs.Rule
	trigger  subscription
	*escalation
	*alertWriter
	ticking  *ticking // nil: it does not tick
	updates  []subscription
	resolves []subscription
	pauses   []subscription
	while    *expression  // nil: the job is not resolved
	question *lookupQuery // nil: no source is queried

	starts    []string // the streams of the trigger
	remembers bool     // an end may come before its trigger
	orders    bool     // events that change or end its jobs come from other streams than the trigger's, too
	scattered bool     // its pauses come from several streams

	spend *budget // the budget of all expressions together; nil: one for each event or check

	allowance *checkAllowance // bounds what its checks and ticks cost over time; nil: nothing does

	own *atomic.Pointer[ownEngine] // the last one that was requested

	weight int // the approximate memory of the rule, in bytes
}

// ownEngine is the engine's view of a rule whose jobs can be ended by the streams of the newest version, too.
type ownEngine struct {
	ending []string // those streams
	engine *futurejobs.Rule
}

// Document returns the source of the rule.
func (r *Rule) Document() document.Document { return r.document }

// Engine returns the engine's view of the rule.
func (r *Rule) Engine() *futurejobs.Rule { return &r.engine }

// newEngineRule prepares the rule for the engine, once all of it is compiled.
func (r *Rule) newEngineRule(saved RuleVersion, grid futurejobs.Grid, env environment) {
	d := r.document
	streams := streamRoles{d, saved.Reads}
	r.starts = streams.starting()
	for _, read := range saved.Reads {
		r.remembers = r.remembers || r.early(read.source()) > 0
	}
	r.orders, r.scattered = r.ordersEvents(streams), len(streams.pausing()) > 1
	r.remembers = r.remembers || r.orders && d.Early > 0
	r.own = new(atomic.Pointer[ownEngine])
	r.engine = futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: d.Name, Entity: d.Entity, Deleted: !saved.DeletedAt.IsZero(),
		Grid: grid, Labels: r.labelsOf, Handler: handler{r}, MaxSeverity: r.loudest,
		Limits: guards.Limits{
			Timeout: time.Duration(d.Guards.Timeout), Attempts: d.Guards.Attempts, MaxChecks: d.Guards.MaxChecks,
			Interval: time.Duration(d.Guards.Interval), Jitter: time.Duration(d.Guards.Jitter),
			Horizon: time.Duration(d.Guards.Horizon), End: d.Guards.End,
		},
		CatchUp:          futurejobs.CatchUp{After: time.Duration(d.CatchUp.After), Do: lateActions[d.CatchUp.Do]},
		Streams:          streams.changing(),
		HeartbeatStreams: streams.heartbeats(),
	}
	if r.orders {
		r.engine.Early, r.engine.Scattered = time.Duration(d.Early), len(r.starts) > 1
	}
	if r.allowance = env.checkAllowance(saved); r.allowance != nil {
		r.engine.Allowance = r.allowance
	}
	if d.Handler != "" {
		r.engine.Handler = newNamedHandler(r, env.handlers.Lookup(d.Handler))
	}
	if d.Handler == "" {
		r.engine.Upcoming = r.upcomingOf
	}
	r.shifts()
	if r.question != nil {
		r.engine.Finder = &finder{r.question, env.source(r.question.source), r.engine.Limits.Timeout}
	}
	if !d.Quiet {
		r.engine.Closing = func(j futurejobs.Job, text string) alerts.Draft { return r.closeAlert(contextOf(j), j.Step, text) }
	}
}

var lateActions = map[document.CatchUpAction]futurejobs.LateAction{document.Run: futurejobs.Run, document.Skip: futurejobs.Skip, document.Expire: futurejobs.Expire}

// ordersEvents reports whether the jobs of the rule have to remember the order of events: the events that trigger,
// change or end them come from more than one stream.
func (r *Rule) ordersEvents(streams streamRoles) bool {
	if r.heartbeat != nil || len(r.starts) == 0 {
		return false
	}
	return slices.ContainsFunc(sourcesOf(streams.changing()), func(stream string) bool { return !only(r.starts, stream) })
}

func (r *Rule) ref(key string, shards int) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf(r.engine.Entity, key, shards), RuleID: r.engine.ID, Key: key}
}

func wrapErr(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
}

// ErrNoHeartbeat means that the rule has no heartbeat.
var ErrNoHeartbeat = errors.New("the rule has no heartbeat; add one to its trigger")

// AcceptsHeartbeat returns why the rule would refuse every ping of a key; nil: it would not. The error is ErrNoHeartbeat or
// Problems.
func (r *Rule) AcceptsHeartbeat(key string) error {
	if r.heartbeat == nil {
		return fmt.Errorf("rule %s: %w", r.engine.Name, ErrNoHeartbeat)
	}
	if err := checkKey(key); err != nil {
		return document.Problems{{Pointer: "/key", Rule: r.engine.Name, Message: err.Error()}}
	}
	return nil
}

// ExpectationEffect is the effect of declaring a key that has not sent a heartbeat yet.
func (r *Rule) ExpectationEffect(key string, at time.Time, shards int) (futurejobs.Effect, error) {
	if err := checkKey(key); err != nil {
		return futurejobs.Effect{}, err
	}
	start, err := r.startExpected(key, at, heartbeatState{}, nil)
	return futurejobs.Effect{Rule: &r.engine, Ref: r.ref(key, shards), Action: start}, err
}

// HeartbeatEffect is the effect of a ping. The error is ErrNoHeartbeat or Problems.
func (r *Rule) HeartbeatEffect(b ReceivedHeartbeat, shards int) (futurejobs.Effect, error) {
	if err := r.AcceptsHeartbeat(b.Key); err != nil {
		return futurejobs.Effect{}, err
	}
	text := string(b.Kind)
	if b.Exit != nil {
		text = strconv.Itoa(*b.Exit)
	}
	kind, _, err := signalOf(text)
	if err != nil {
		return futurejobs.Effect{}, document.Problems{{Pointer: "/kind", Rule: r.engine.Name, Message: err.Error()}}
	}
	if err := checkRun(b.Run); err != nil {
		return futurejobs.Effect{}, document.Problems{{Pointer: "/run", Rule: r.engine.Name, Message: err.Error()}}
	}
	b.Kind, b.At = kind, b.At.UTC().Truncate(time.Microsecond)
	event := func(p heartbeatState) (json.RawMessage, error) {
		return json.Marshal(ping{kind, b.Exit, b.Run, p.Seconds, b.Body, "ping"})
	}
	heartbeat, err := heartbeatUpdate{r, b, true, event, func(futurejobs.Job) *Rule { return r }}.effect()
	if err != nil {
		return futurejobs.Effect{}, document.Problems{{Rule: r.engine.Name, Message: err.Error()}}
	}
	return futurejobs.Effect{Rule: &r.engine, Ref: r.ref(b.Key, shards), Action: heartbeat}, nil
}

// tenantBudget returns the budget of all evaluations of the rule, if it has one, or that of an event or a check.
func (r *Rule) tenantBudget(own *budget) *budget {
	if r.spend != nil {
		return r.spend
	}
	return own
}

// onBudget returns the rule with one budget for all its evaluations, as long as ctx lasts.
func (r *Rule) onBudget(ctx context.Context) *Rule {
	own := *r
	own.spend = &budget{left: previewBudget, ended: ctx.Done()}
	if _, is := r.engine.Handler.(handler); is {
		own.engine.Handler = handler{&own}
	}
	return &own
}

// Steps returns the largest number of steps that the rule takes; 0: a handler decides that, or a step repeats until a
// user acknowledges.
func (r *Rule) Steps() int {
	if slices.ContainsFunc(r.steps, func(s step) bool { return s.nags }) {
		return 0
	}
	return len(r.steps)
}

// HeldForever reports whether a check of a job at next is irrelevant: it only ends the hold of a missing heartbeat,
// which is unlimited. It is for jobs whose first step was taken: every other check of those is within the horizon.
func (r *Rule) HeldForever(next, now time.Time) bool {
	return r.heartbeat != nil && r.document.Hold == document.MaxDuration && next.Sub(now) > r.engine.Limits.Horizon
}

// HeartbeatDue returns the time by which the next report of a heartbeat must come, the grace included. For a rule without a
// heartbeat it returns the next check.
func (r *Rule) HeartbeatDue(j futurejobs.Job) time.Time {
	if r.heartbeat == nil {
		return j.NextCheckAt
	}
	due, _ := r.heartbeat.noGapSince(contextOf(j))
	return due.UTC()
}

// OverdueBefore returns the end of the time of reports that are too old at now: their next report is overdue. Without such a
// time it returns the zero time. Pauses, runs and failures are not considered.
func (r *Rule) OverdueBefore(now time.Time) time.Time { return r.heartbeat.overdueBefore(now) }

// startExpected returns the start of a job that expects a heartbeat of an entity. before has the last one, if there was one.
func (r *Rule) startExpected(key string, now time.Time, before heartbeatState, event json.RawMessage) (start futurejobs.Start, err error) {
	now = now.UTC().Truncate(time.Microsecond)
	before.Kind = Expected
	start.Job, start.Named = futurejobs.Job{Version: r.engine.Version, Since: now, Event: event}, true
	if start.Job.State, err = before.mergeInto(nil, event); err != nil {
		return start, err
	}
	start.Job.FirstCheckAt, err = r.firstCheck(contextOf(start.Job.Of(key)), now)
	return start, err
}

// isApart reports whether a stream's events are ordered by their times: it is not the only stream of the triggers of
// all versions. A heartbeat is compared with the last one by itself.
func (r *Rule) isApart(starts []string, stream string) bool {
	return r.heartbeat == nil && len(starts) > 0 && !only(starts, stream)
}

// since returns when the job began.
func (r *Rule) since(s scope, at time.Time) (time.Time, error) {
	if r.trigger.since == nil {
		return at, nil
	}
	return r.trigger.since.instant(s)
}

// start returns the start of a job. A since so far ahead that the first check would be beyond the horizon is refused:
// no user would notice that the job is never checked.
func (r *Rule) start(key string, since, at time.Time, event *bodies.Body, spend *budget) (futurejobs.Start, error) {
	start := futurejobs.Start{
		Job:           futurejobs.Job{Version: r.engine.Version, Since: since, Event: event.JSON()},
		Restart:       r.document.Again == document.Restart,
		Early:         r.remembers,
		OrderedByTime: r.orders,
	}
	if r.orders { // only then is a change read before its trigger
		start.Merge = func(known json.RawMessage) futurejobs.Merging { return bodies.NewMerging(known) }
		start.Next = r.nextOf
	}
	if horizon := r.engine.Limits.Horizon; since.After(at.Add(horizon)) {
		return start, fmt.Errorf("since is %s, further ahead of the event than the horizon, %s", since.Format(time.RFC3339), document.Duration(horizon))
	}
	first, err := r.firstCheck(jobContext{scope: scope{event: event, state: event, key: key, since: since, spend: spend}}, at)
	if err != nil {
		return start, err
	}
	start.Job.FirstCheckAt = first
	if start.Restart && !r.document.Quiet {
		start.Close = func(j futurejobs.Job) alerts.Draft {
			return r.engine.Closing(j, fmt.Sprintf("%s %s: restarted by a new trigger", r.engine.Entity, j.Key))
		}
	}
	start.Sets = r.sets(func(checks.Outcome) futurejobs.CloseAlert { return nil })
	return start, nil
}

// sets returns the rule's sets, with the end of a job for a complete set.
func (r *Rule) sets(closing func(checks.Outcome) futurejobs.CloseAlert) []futurejobs.AddMember {
	var sets []futurejobs.AddMember
	for i := range r.resolves {
		if w := &r.resolves[i]; w.distinct != nil {
			sets = append(sets, futurejobs.AddMember{
				Set: w.set, Need: r.requiredMembers(i, scope{}), End: futurejobs.End{Outcome: w.outcome, Close: closing(w.outcome)},
			})
		}
	}
	return sets
}

// Start returns the effect of a job that a person creates, at now. event replaces the body of its trigger; nil: none. A
// zero since is now.
func (r *Rule) Start(key string, since, now time.Time, event json.RawMessage, shards int) (futurejobs.Effect, error) {
	if r.document.Trigger.Emit != nil {
		return futurejobs.Effect{}, document.Problems{{Pointer: "/rule", Rule: r.engine.Name, Message: "the rule emits events and creates no jobs; start a job of a rule that subscribes to them"}}
	}
	if len(r.steps) == 0 && r.document.Handler == "" {
		return futurejobs.Effect{}, document.Problems{{Pointer: "/rule", Rule: r.engine.Name, Message: "this version of deadman cannot run the rule, so the job would never be checked"}}
	}
	if err := checkKey(key); err != nil {
		return futurejobs.Effect{}, document.Problems{{Pointer: "/key", Rule: r.engine.Name, Message: err.Error()}}
	}
	b := bodies.New(event)
	if err := b.Check(); event != nil && err != nil {
		return futurejobs.Effect{}, document.Problems{{Pointer: "/event", Rule: r.engine.Name, Message: err.Error()}}
	}
	if since.IsZero() {
		since = now
	}
	spend := budgetFor(b.Size())
	start, err := r.start(key, since.UTC().Truncate(time.Microsecond), now, b, &spend)
	if err == nil && r.heartbeat != nil { // a person's job is no report
		start.Job.State, err = heartbeatState{Kind: Expected}.mergeInto(nil, start.Job.Event)
	}
	if err != nil {
		return futurejobs.Effect{}, document.Problems{{Pointer: "", Rule: r.engine.Name, Message: err.Error()}}
	}
	start.Restart, start.Early, start.OrderedByTime = false, false, false // the answer to a person names the existing job
	start.ByHand = r.heartbeat == nil && len(r.engine.Streams) > 0
	return futurejobs.Effect{Rule: &r.engine, Ref: r.ref(key, shards), Action: start}, nil
}

// requiredMembers returns a function for the size of the i-th resolve's set. s holds the values of the event at hand.
func (r *Rule) requiredMembers(i int, s scope) func(futurejobs.Job) (int, error) {
	return func(j futurejobs.Job) (int, error) {
		w := contextOf(j)
		if s.event != nil {
			w.event, w.wild = s.event, s.wild
		}
		n, err := r.resolves[i].need.whole(w.scope)
		if absent := (absentError{}); errors.As(err, &absent) {
			return 0, nil // an update may supply it
		}
		return n, wrapErr("need", err)
	}
}

// early returns how long an end is remembered that comes from a stream before its trigger. On a single stream the order
// is known, and it is not remembered, unless the trigger sets since itself.
func (r *Rule) early(stream string) time.Duration {
	if len(r.resolves) == 0 || r.heartbeat != nil || r.trigger.since == nil && only(r.starts, stream) {
		return 0
	}
	return time.Duration(r.document.Early)
}

// shifts tells the engine the times of a job that move when the database's clock is set: times relative to the
// beginning of the job, and the times of a heartbeat. A wall-clock time is computed again.
func (r *Rule) shifts() {
	r.engine.NamesSince = r.trigger.since != nil
	r.engine.NamesTimes = r.engine.NamesSince || r.heartbeat != nil && r.heartbeat.ticks != nil || slices.ContainsFunc(r.steps, func(s step) bool {
		return s.at != nil || s.clock != nil || s.of != nil || s.within != nil
	})
	if r.heartbeat != nil {
		r.engine.ShiftState = shiftPulse
	}
}

// Preview plays events and the checks between them through the engine itself. The events are in the order of their
// times. It follows the first job that is created, for its key.
func (r *Rule) Preview(ctx context.Context, events []PreviewEvent, until time.Time) (Preview, error) {
	switch {
	case len(events) == 0:
		return Preview{}, fmt.Errorf("%w: send the event that triggers a job", ErrPreview)
	case !slices.IsSortedFunc(events, func(a, b PreviewEvent) int { return a.At.Compare(b.At) }):
		return Preview{}, fmt.Errorf("%w: the events are not in the order of their times", ErrPreview)
	}
	if r.document.Trigger.IsStored() {
		return Preview{}, fmt.Errorf("%w: the schedules of the rule are stored; read the next ticks of one of them", ErrPreview)
	}
	r = r.onBudget(ctx)
	if r.ticking != nil {
		return previewTicks(ctx, r, events, until)
	}
	if until.IsZero() {
		until = futurejobs.FarFuture
	}
	p := newPreviewing(r)
	err := p.play(ctx, events, until)
	return p.out, err
}
