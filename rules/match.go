package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// matcher matches one event against the rules.
type matcher struct {
	event    futurejobs.Event
	body     *body
	shards   int
	only     futurejobs.Part // of the rules; empty: all of them
	late     bool
	tenants  tenancy
	effects  []futurejobs.Effect
	refusals []futurejobs.Refusal
}

// newMatcher parses an event. An error means that its envelope cannot be opened.
func newMatcher(e futurejobs.Event, shards int) (matcher, error) {
	opened, err := openEvent(e)
	return matcher{event: opened, body: newBody(opened.Data), shards: shards}, err
}

// ruleMatch matches an event against one version of a rule.
type ruleMatch struct {
	*matcher
	*Rule
	// spend is the budget of the rule's expressions together on the event; over is the error for exceeding it.
	spend *budget
	over  error
	// made returns the version that made a job: its steps and sets count.
	made    func(futurejobs.Job) *Rule
	paused  bool
	isApart bool
}

// matchRule matches the event against a rule: first for jobs to create, then to change, then to end. It reports whether
// that would have cost too much.
func (m *matcher) matchRule(all *rule, v *version) (tooMuch bool) {
	r, err := v.compiled()
	if err != nil {
		m.refuse(v.saved.Name, "", err)
		return false
	}
	unbeaten := r.beats != nil && all.versions[0].document.Trigger.Heartbeat == nil // no heartbeat would postpone a job created now
	h := ruleMatch{matcher: m, Rule: r, isApart: r.isApart(all.starts, m.event.Stream), paused: all.paused || unbeaten, made: func(j futurejobs.Job) *Rule {
		if made, err := all.of(j.Version).compiled(); err == nil {
			return made
		}
		return r
	}}
	own := m.budget()
	h.spend = &own
	if v.saved.Bounds == nil {
		h.match()
	} else {
		h.matchForTenant(v.saved)
	}
	return h.over != nil
}

// budget returns the budget of the rule's expressions on the event.
func (m *matcher) budget() budget { return budgetFor(m.body.size()) }

// match plays the event to the rule, or to the requested part of it. If the expressions of the rule would cost too
// much, the only result for the rule is one refusal.
func (h *ruleMatch) match() {
	before := h.place()
	if h.asks(futurejobs.Triggers) {
		h.addRefusal(futurejobs.Triggers, "trigger", h.matchTrigger())
	}
	if h.asks(futurejobs.Updates) {
		for i := range h.updates {
			h.addRefusal(futurejobs.Updates, fmt.Sprintf("update[%d]", i), h.matchUpdate(&h.updates[i]))
			if h.over != nil {
				break
			}
		}
	}
	if h.asks(futurejobs.Pauses) {
		h.addRefusal(futurejobs.Pauses, "pause", h.matchPause())
	}
	if h.asks(futurejobs.Resolves) {
		h.matchResolves()
	}
	if h.over != nil {
		h.refuseAll(before)
	}
}

// refuseAll replaces what came of the rule since a place by one refusal.
func (h *ruleMatch) refuseAll(before matchPlace) {
	h.effects, h.refusals = slices.Delete(h.effects, before.effects, len(h.effects)), h.refusals[:before.refusals]
	h.refuse(h.engine.Name, h.only, h.over)
}

// asks reports whether a part of the rule is to be matched.
func (h *ruleMatch) asks(part futurejobs.Part) bool {
	return h.over == nil && (h.only == "" || h.only == part)
}

// matchResolves ends a job by the first of the resolves that matches the event.
func (h *ruleMatch) matchResolves() {
	for i := range h.resolves {
		ended, err := h.matchResolve(i)
		h.addRefusal(futurejobs.Resolves, fmt.Sprintf("resolve[%d]", i), err)
		if ended || h.over != nil {
			return
		}
	}
}

// addRefusal adds an error as a refusal of the event.
func (h *ruleMatch) addRefusal(part futurejobs.Part, where string, err error) {
	switch {
	case err == nil:
	case isCostly(err):
		h.over = wrapErr(where, err)
	default:
		h.refuse(h.engine.Name, part, wrapErr(where, err))
	}
}

func (m *matcher) refuse(rule string, part futurejobs.Part, err error) {
	m.refusals = append(m.refusals, futurejobs.Refusal{Rule: rule, Part: part, Reason: err.Error()})
}

// addEffect adds an effect on the job of a key. The job of a tick has no place in the order of events: an event before
// the tick does not affect it, regardless of when it is read.
func (h *ruleMatch) addEffect(key string, ask futurejobs.Action) {
	h.effects = append(h.effects, futurejobs.Effect{
		Rule: &h.engine, Ref: h.ref(key, h.shards), Event: &h.event, Late: h.late || h.ticking != nil, Apart: h.isApart, Action: ask,
	})
}

// isApart reports whether a stream's events are ordered by their times: it is not the only stream of the triggers of
// all versions. A heartbeat is compared with the last one by itself.
func (r *Rule) isApart(starts []string, stream string) bool {
	return r.beats == nil && len(starts) > 0 && !only(starts, stream)
}

// only reports whether a stream is the only one.
func only(streams []string, stream string) bool { return len(streams) == 1 && streams[0] == stream }

// matches reports whether the watch is for the event, and returns the values for its expressions.
func (h *ruleMatch) matches(w *subscription) (scope, bool) {
	if !matches(w.subject, h.event.Subject) {
		return scope{}, false
	}
	s := scope{event: h.body, spend: h.spend}
	if w.wild {
		s.wild = wildcards(w.subject, h.event.Subject)
	}
	return s, true
}

// listens reports whether the rule has a watch for the event.
func (h *ruleMatch) listens() bool {
	return slices.ContainsFunc(h.document.Subjects(), func(s string) bool { return matches(s, h.event.Subject) })
}

// holds reports whether the watch's condition holds.
func (w *subscription) holds(s scope) (bool, error) {
	if w.cond == nil {
		return true, nil
	}
	return w.cond.holds(s)
}

// keyWhen returns the key of an event that satisfies the watch; ok is false for another one.
func (h *ruleMatch) keyWhen(w *subscription) (s scope, key string, ok bool, err error) {
	s, ok = h.matches(w)
	if !ok {
		return s, "", false, nil
	}
	if ok, err = w.holds(s); !ok || err != nil {
		return s, "", false, err
	}
	key, err = w.key.keyOf(s)
	return s, key, err == nil, err
}

// matchTrigger creates a job, if the event is a trigger.
func (h *ruleMatch) matchTrigger() error {
	if h.beats != nil {
		return h.matchBeat()
	}
	if !h.document.Enabled || h.paused {
		return nil
	}
	s, key, ok, err := h.keyWhen(&h.trigger)
	if !ok {
		return err
	}
	at := h.event.At.UTC().Truncate(time.Microsecond)
	if s.since, err = h.since(s, at); err != nil {
		return err
	}
	start, err := h.start(key, s.since, at, h.body, h.spend)
	if err == nil {
		h.addEffect(key, start)
	}
	return err
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
func (r *Rule) start(key string, since, at time.Time, event *body, spend *budget) (futurejobs.Start, error) {
	start := futurejobs.Start{
		Job:           futurejobs.Job{Version: r.engine.Version, Since: since, Event: event.valid()},
		Restart:       r.document.Again == Restart,
		Early:         r.remembers,
		OrderedByTime: r.orders,
	}
	if r.orders { // only then is a change read before its trigger
		start.Merge = func(known json.RawMessage) futurejobs.Merging { return newMerging(known) }
		start.Next = r.nextOf
	}
	if horizon := r.engine.Limits.Horizon; since.After(at.Add(horizon)) {
		return start, fmt.Errorf("since is %s, further ahead of the event than the horizon, %s", since.Format(time.RFC3339), Duration(horizon))
	}
	first, err := r.firstCheck(waitContext{scope: scope{event: event, state: event, key: key, since: since, spend: spend}}, at)
	if err != nil {
		return start, err
	}
	start.Job.FirstCheckAt = first
	if start.Restart && !r.document.Quiet {
		start.Close = func(j futurejobs.Job) alerts.Draft {
			return r.engine.Closing(j, fmt.Sprintf("%s %s: the wait began anew", r.engine.Entity, j.Key))
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
				Set: uint8(i), Need: r.requiredMembers(i, scope{}), End: futurejobs.End{Outcome: w.outcome, Close: closing(w.outcome)},
			})
		}
	}
	return sets
}

// Start returns the effect of a job that a person creates, at now. event replaces the body of its trigger; nil: none. A
// zero since is now.
func (r *Rule) Start(key string, since, now time.Time, event json.RawMessage, shards int) (futurejobs.Effect, error) {
	if r.document.Trigger.Emit != nil {
		return futurejobs.Effect{}, Problems{{Pointer: "/rule", Rule: r.engine.Name, Message: "the rule emits events and waits for nothing; begin the wait of a rule that listens to them"}}
	}
	if len(r.steps) == 0 && r.document.Handler == "" {
		return futurejobs.Effect{}, Problems{{Pointer: "/rule", Rule: r.engine.Name, Message: "the rule is stored and not run yet by this version, so nobody would look"}}
	}
	if err := checkKey(key); err != nil {
		return futurejobs.Effect{}, Problems{{Pointer: "/key", Rule: r.engine.Name, Message: err.Error()}}
	}
	b := newBody(event)
	if err := b.check(); event != nil && err != nil {
		return futurejobs.Effect{}, Problems{{Pointer: "/event", Rule: r.engine.Name, Message: err.Error()}}
	}
	if since.IsZero() {
		since = now
	}
	spend := budgetFor(b.size())
	start, err := r.start(key, since.UTC().Truncate(time.Microsecond), now, b, &spend)
	if err != nil {
		return futurejobs.Effect{}, Problems{{Pointer: "", Rule: r.engine.Name, Message: err.Error()}}
	}
	start.Restart, start.Early, start.OrderedByTime = false, false, false // the answer to a person names the existing job
	start.ByHand = r.beats == nil && len(r.engine.Streams) > 0
	return futurejobs.Effect{Rule: &r.engine, Ref: r.ref(key, shards), Action: start}, nil
}

// matchUpdate merges the event into the state of a job, if it is newer.
func (h *ruleMatch) matchUpdate(w *subscription) error {
	_, key, ok, err := h.keyWhen(w)
	if !ok {
		return err
	}
	if err := h.body.check(); err != nil {
		return err
	}
	news := h.body.data
	h.addEffect(key, futurejobs.Update{
		News:  news,
		Begin: func(known json.RawMessage) futurejobs.Merging { return newMerging(known) },
		Sets:  h.sets(h.closing),
	})
	return nil
}

// matchPause suspends the time of a job if the condition of one of the rule's pauses holds for the event, and resumes
// it if the event is for a pause and no condition holds.
func (h *ruleMatch) matchPause() error {
	going := ""
	for i := range h.pauses {
		w := &h.pauses[i]
		s, ok := h.matches(w)
		if !ok {
			continue
		}
		still, err := w.holds(s)
		if err != nil {
			return err
		}
		key, err := w.key.keyOf(s)
		if err != nil {
			return err
		}
		if still {
			h.addEffect(key, futurejobs.Pause{})
			return nil
		}
		going = key
	}
	if going != "" {
		h.addEffect(going, futurejobs.Resume{Apart: h.scattered, Next: func(j futurejobs.Job) time.Time { return h.made(j).nextOf(j) }})
	}
	return nil
}

// nextOf returns the time of a job's next check: the slot of its next step, or an earlier recheck of the rule; the zero
// time if no step is left or the times are undetermined.
func (r *Rule) nextOf(j futurejobs.Job) time.Time {
	w := waitOf(j)
	line, err := r.timelineTo(w, j.Step)
	if err != nil || j.Step >= len(line) {
		return time.Time{}
	}
	from := j.Since
	if n := len(j.Pauses); n > 0 {
		from = j.Pauses[n-1].To
	}
	return r.earlierRecheck(w.scope, from, r.engine.Grid.Up(line[j.Step].at))
}

// matchResolve ends a job, or adds to a set that ends it, and reports whether the event matches the i-th resolve.
func (h *ruleMatch) matchResolve(i int) (is bool, err error) {
	w := &h.resolves[i]
	s, key, ok, err := h.keyWhen(w)
	if !ok {
		return false, err
	}
	end := futurejobs.End{Outcome: w.outcome, Early: h.early(h.event.Stream), Close: h.closing(w.outcome)}
	if w.distinct == nil {
		h.addEffect(key, end)
		return true, nil
	}
	member, err := w.distinct.keyOf(s)
	if err != nil {
		return false, wrapErr("distinct", err)
	}
	h.addEffect(key, futurejobs.AddMember{Set: uint8(i), Member: member, Need: h.requiredMembers(i, s), End: end})
	return true, nil
}

// requiredMembers returns a function for the size of the i-th resolve's set. s holds the values of the event at hand.
func (r *Rule) requiredMembers(i int, s scope) func(futurejobs.Job) (int, error) {
	return func(j futurejobs.Job) (int, error) {
		w := waitOf(j)
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
	if len(r.resolves) == 0 || r.beats != nil || r.trigger.since == nil && only(r.starts, stream) {
		return 0
	}
	return time.Duration(r.document.Early)
}

// closing drafts the alert that closes a job. The steps are those of the version that made it.
func (h *ruleMatch) closing(outcome checks.Outcome) futurejobs.CloseAlert {
	if h.document.Quiet {
		return nil
	}
	at := h.event.At
	return func(j futurejobs.Job) alerts.Draft {
		r := h.made(j)
		text := fmt.Sprintf("%s %s: %s", r.engine.Entity, j.Key, outcome)
		if took := at.Sub(j.Since).Truncate(time.Second); took > 0 {
			text += " after " + Duration(took).String()
		}
		w := waitOf(j)
		w.rule = r.engine.Name
		return r.closeAlert(w, j.Step, text)
	}
}
