package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/rules/bodies"
	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// ruleMatch matches an event against one version of a rule.
type ruleMatch struct {
	*matcher
	*Rule
	// spend is the budget of the rule's expressions together on the event; over is the error for exceeding it.
	spend *budget
	over  error
	// versionOf returns the version that made a job: its steps and sets count.
	versionOf func(futurejobs.Job) *Rule
	paused    bool
	isApart   bool
}

// match plays the event to the rule, or to the requested part of it. If the expressions of the rule would cost too
// much, the only result for the rule is one refusal.
func (h *ruleMatch) match() {
	before := h.place()
	if h.includes(futurejobs.Triggers) {
		h.addRefusal(futurejobs.Triggers, "trigger", h.matchTrigger())
	}
	if h.includes(futurejobs.Updates) {
		for i := range h.updates {
			h.addRefusal(futurejobs.Updates, fmt.Sprintf("update[%d]", i), h.matchUpdate(&h.updates[i]))
			if h.over != nil {
				break
			}
		}
	}
	if h.includes(futurejobs.Pauses) {
		h.addRefusal(futurejobs.Pauses, "pause", h.matchPause())
	}
	if h.includes(futurejobs.Resolves) {
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

// includes reports whether a part of the rule is to be matched.
func (h *ruleMatch) includes(part futurejobs.Part) bool {
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

// addEffect adds an effect on the job of a key. The job of a tick has no place in the order of events: an event before
// the tick does not affect it, regardless of when it is read.
func (h *ruleMatch) addEffect(key string, action futurejobs.Action) {
	h.effects = append(h.effects, futurejobs.Effect{
		Rule: &h.engine, Ref: h.ref(key, h.shards), Event: &h.event, OutOfOrder: h.late || h.ticking != nil, Apart: h.isApart, Action: action,
	})
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

// isSubscribed reports whether the rule has a watch for the event.
func (h *ruleMatch) isSubscribed() bool {
	return slices.ContainsFunc(h.document.Subjects(), func(s string) bool { return matches(s, h.event.Subject) })
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
	if h.heartbeat != nil {
		return h.matchHeartbeat()
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

// matchUpdate merges the event into the state of a job, if it is newer.
func (h *ruleMatch) matchUpdate(w *subscription) error {
	_, key, ok, err := h.keyWhen(w)
	if !ok {
		return err
	}
	if err := h.body.Check(); err != nil {
		return err
	}
	patch := h.body.JSON()
	h.addEffect(key, futurejobs.Update{
		Patch: patch,
		Begin: func(known json.RawMessage) futurejobs.Merging { return bodies.NewMerging(known) },
		Sets:  h.sets(h.closing),
	})
	return nil
}

// matchPause suspends the time of a job if the event begins one of the rule's pauses, and resumes it if the event ends one
// and begins none.
func (h *ruleMatch) matchPause() error {
	resumeKey := ""
	for i := range h.pauses {
		w := &h.pauses[i]
		s, ok := h.matches(w)
		if !ok {
			continue
		}
		holds, err := w.holds(s)
		if err != nil {
			return err
		}
		key, err := w.key.keyOf(s)
		if err != nil {
			return err
		}
		switch {
		case holds && w.pause != endsPause:
			h.addEffect(key, futurejobs.Pause{})
			return nil
		case holds || w.pause == pausesWhile:
			resumeKey = key
		}
	}
	if resumeKey != "" {
		h.addEffect(resumeKey, futurejobs.Resume{Apart: h.scattered, Next: func(j futurejobs.Job) time.Time { return h.versionOf(j).nextOf(j) }})
	}
	return nil
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
	h.addEffect(key, futurejobs.AddMember{Set: w.set, Member: member, Need: h.requiredMembers(i, s), End: end})
	return true, nil
}

// closing drafts the alert that closes a job. The steps are those of the version that made it.
func (h *ruleMatch) closing(outcome checks.Outcome) futurejobs.CloseAlert {
	if h.document.Quiet {
		return nil
	}
	at := h.event.At
	return func(j futurejobs.Job) alerts.Draft {
		r := h.versionOf(j)
		text := fmt.Sprintf("%s %s: %s", r.engine.Entity, j.Key, outcome)
		if took := at.Sub(j.Since).Truncate(time.Second); took > 0 {
			text += " after " + document.Duration(took).String()
		}
		w := contextOf(j)
		w.rule = r.engine.Name
		return r.closeAlert(w, j.Step, text)
	}
}

// matchHeartbeat processes an event as a heartbeat, if it is one. A heartbeat of a rule that is paused or rests creates no
// new job; pending jobs continue.
func (h *ruleMatch) matchHeartbeat() error {
	if h.trigger.subject == "" {
		return nil
	}
	s, key, ok, err := h.keyWhen(&h.trigger)
	if !ok {
		return err
	}
	b := ReceivedHeartbeat{Key: key, At: h.event.At.UTC().Truncate(time.Microsecond), Kind: Success, Paused: h.paused}
	if h.heartbeat.kind != nil {
		word, err := h.heartbeat.kind.wordOf(s, "")
		if err != nil {
			return wrapErr("kind", err)
		}
		if b.Kind, b.Exit, err = signalOf(word); err != nil {
			return wrapErr("kind", err)
		}
	}
	if b.Run, err = h.heartbeat.runOf(s); err != nil {
		return wrapErr("run", err)
	}
	carries := func(body json.RawMessage) heartbeatUpdate {
		return heartbeatUpdate{h.Rule, b, false, func(heartbeatState) (json.RawMessage, error) { return body, nil }, h.versionOf}
	}
	heartbeat, err := carries(h.body.JSON()).effect()
	heartbeat.Bare = carries(nil).apply
	if err == nil {
		h.addEffect(key, heartbeat)
	}
	return err
}

// matchForTenant matches the event against a rule with bounds, within the limits of its tenant.
func (h *ruleMatch) matchForTenant(of RuleVersion) {
	t := h.tenants.budgetOf(of, h.spend.left, h.body.Size())
	given, before := t.lower(h.spend), h.place()
	h.match()
	cost, writes := given-h.spend.left, h.place().since(before)
	if h.over == nil && !t.affords(cost+writes*roundsToWrite) {
		h.over = errUsedUp
		h.refuseAll(before)
	}
	if errors.Is(h.over, errUsedUp) {
		writes, h.refusals = 0, h.refusals[:before.refusals]
		h.tenants.refuse(t.tenant, of.Name, errUsedUp, h.over)
	}
	h.tenants.pay(t, cost, writes)
}
