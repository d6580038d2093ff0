package rules

import (
	"slices"
	"strings"

	"deadman/rules/document"

	"deadman/checks"
	"deadman/internal/subjects"
)

// subscriptionCompiler compiles the trigger and the other subscriptions of a rule.
type subscriptionCompiler struct{ *compiler }

func (c subscriptionCompiler) trigger(t document.Trigger) subscription {
	if t.Event+t.Key+t.If+t.Since+t.Schedule+t.Zone == "" && t.Keys == nil && t.Emit == nil && t.Shape == nil && t.Heartbeat == nil {
		c.problem("/trigger", "the trigger is missing; write trigger: {event: orders.created, key: event.id}")
		return subscription{}
	}
	switch {
	case t.Schedule != "" && (t.Event != "" || t.Heartbeat != nil), t.Event != "" && t.Heartbeat != nil:
		c.problem("/trigger", "event, schedule and heartbeat exclude each other; keep one of them")
	case t.Schedule != "":
		scheduleCompiler{c}.schedule(t)
	case t.Heartbeat != nil:
		return heartbeatCompiler{c}.heartbeat(t)
	default:
		return c.triggerEvent(t)
	}
	return subscription{}
}

func (c subscriptionCompiler) triggerEvent(t document.Trigger) subscription {
	c.only("event", t, "zone", "keys", "emit")
	w := c.watch("/trigger", document.Watch{Event: t.Event, Key: t.Key, If: t.If, Shape: t.Shape}, "triggers a job")
	w.since = c.expression("/trigger/since", t.Since, inSince.withSubject(t.Event))
	w.wild = w.wild || w.since != nil && w.since.wild
	c.watched[len(c.watched)-1].merged = true
	return w
}

// only refuses fields of a trigger that belong to another kind of it.
func (c subscriptionCompiler) only(kind string, t document.Trigger, others ...string) {
	written := map[string]bool{
		"key": t.Key != "", "if": t.If != "", "since": t.Since != "", "shape": t.Shape != nil,
		"zone": t.Zone != "", "keys": t.Keys != nil, "emit": t.Emit != nil,
	}
	inside := []string{"key", "if", "shape", "keys"}
	for _, field := range others {
		switch {
		case written[field] && kind == "heartbeat" && slices.Contains(inside, field):
			c.problem("/trigger/"+field, "%q belongs inside heartbeat; write heartbeat: {%s: …}", field, field)
		case written[field]:
			c.problem("/trigger/"+field, "a trigger by %s has no field %q; remove it", kind, field)
		}
	}
}

// watch compiles an event that a rule listens to. purpose is the effect of the event.
func (c subscriptionCompiler) watch(pointer string, w document.Watch, purpose string) subscription {
	return c.watchIf(pointer, w, purpose, inIf)
}

// endsJobPause is the purpose of the event that ends a pause. Its key is that of the pause unless it has one.
const endsJobPause = "ends a pause"

// watchIf is watch with the environment of the condition.
func (c subscriptionCompiler) watchIf(pointer string, w document.Watch, purpose string, condition exprEnv) subscription {
	if w.Event == "" {
		c.problem(pointer+"/event", "the event is missing; write the subject that %s, such as orders.created", purpose)
	} else if wrong := checkSubject(w.Event); wrong != "" {
		c.problem(pointer+"/event", "%s", wrong)
	}
	if w.Key == "" && purpose != endsJobPause {
		c.problem(pointer+"/key", "the key is missing; write an expression for the entity of the event, such as key: event.id")
	}
	c.watched = append(c.watched, watched{subject: w.Event, shape: w.Shape, pointer: pointer})
	compiled := subscription{
		subject: w.Event,
		key:     c.expression(pointer+"/key", w.Key, inKey.withSubject(w.Event)),
		cond:    c.expression(pointer+"/if", w.If, condition.withSubject(w.Event)),
	}
	compiled.wild = wild(compiled.key, compiled.cond)
	return compiled
}

// wild reports whether one of the expressions reads the tokens that wildcards matched.
func wild(all ...*expression) bool {
	return slices.ContainsFunc(all, func(x *expression) bool { return x != nil && x.wild })
}

func (c subscriptionCompiler) watches(pointer string, list []document.Watch, purpose string) []subscription {
	if c.subscriptions(pointer, len(list)) {
		return nil
	}
	var compiled []subscription
	for i, w := range list {
		compiled = append(compiled, c.watch(c.item(pointer, i), w, purpose))
		c.watched[len(c.watched)-1].merged = pointer == "/update"
	}
	return compiled
}

func (c subscriptionCompiler) subscriptions(pointer string, n int) bool {
	if n > document.MaxResolves {
		c.problem(pointer, "%d events %s, the most is %d; use a wildcard", n, strings.TrimPrefix(pointer, "/"), document.MaxResolves)
	}
	return n > document.MaxResolves
}

// pauses compiles the events that suspend a job's time. Without an event to resume it, the job would be suspended for
// ever.
func (c subscriptionCompiler) pauses(d document.Document) []subscription {
	if c.subscriptions("/pause", len(d.Pause)) {
		return nil
	}
	if len(d.Pause) > 0 && !slices.ContainsFunc(d.Pause, func(p document.Pause) bool { return p.If != "" || p.Until != nil }) {
		c.problem(c.item("/pause", 0), `the pause would never end; name the event that ends it, such as until: orders.released, or add an if that stops holding, such as if: event.status == "ON_HOLD"`)
	}
	var compiled []subscription
	for i, p := range d.Pause {
		at := c.item("/pause", i)
		condition := inPause
		if p.Until == nil {
			condition.constant = endlessCondition
		}
		begin := c.watchIf(at, p.Watch, "pauses a job", condition)
		if p.Until == nil {
			compiled = append(compiled, begin)
			continue
		}
		end := c.watchIf(at+"/until", *p.Until, endsJobPause, inIf)
		c.checkEnd(at+"/until/event", d, *p.Until)
		begin.pause, end.pause = beginsPause, endsPause
		compiled = append(compiled, begin, end)
	}
	return compiled
}

// checkEnd refuses the end of a pause by events that all begin a pause: an event that begins one ends none.
func (c subscriptionCompiler) checkEnd(pointer string, d document.Document, end document.Watch) {
	begins := func(p document.Pause) bool {
		return p.Event != "" && end.Event != "" && p.Key == end.Key && (p.If == "" || p.If == end.If) && subjects.Covers(p.Event, end.Event)
	}
	if slices.ContainsFunc(d.Pause, begins) {
		c.problem(pointer, "every event that ends the pause begins one, so the pause would never end; name another event, such as until: orders.released")
	}
}

func (c subscriptionCompiler) resolves(d document.Document, sets memberSets) []subscription {
	if c.subscriptions("/resolve", len(d.Resolve)) {
		return nil
	}
	var list []subscription
	for i, s := range d.Resolve {
		p := c.item("/resolve", i)
		condition := inIf
		if d.Trigger.Heartbeat == nil && resolvesTrigger(d, s) {
			condition.constant = neededCondition
		}
		w := c.watchIf(p, s.Watch, "resolves a job", condition)
		w.outcome = c.outcome(p+"/as", s.As)
		c.set(p, s, &w)
		w.set = sets.of(i)
		c.checkNeed(p, d, i)
		list = append(list, w)
	}
	return list
}

func (c subscriptionCompiler) outcome(pointer, as string) checks.Outcome {
	outcome := checks.Outcome(as)
	switch {
	case as == "":
		return checks.Resolved
	case !document.NamePattern.MatchString(as):
		c.problem(pointer, "%q is not an outcome; write %s", clip(as, 80), "a word such as cancelled")
	case outcome.IsReserved():
		c.problem(pointer, "%q is reserved for outcomes without an event; write another word, such as done", as)
	}
	return outcome
}

// set compiles the fields of a resolve by a set of events.
func (c subscriptionCompiler) set(pointer string, s document.Resolve, w *subscription) {
	switch {
	case s.Distinct == "" && s.Need != "":
		c.problem(pointer+"/need", "need requires distinct; write an expression that identifies each member, such as distinct: event.parcel")
	case s.Distinct != "" && s.Need == "":
		c.problem(pointer+"/distinct", "distinct requires need; write how many members resolve the job, such as need: 3")
	}
	w.distinct = c.expression(pointer+"/distinct", s.Distinct, inDistinct.withSubject(s.Event))
	if n, ok := document.WholeNumber(s.Need); ok && n > document.MaxNeed {
		c.problem(pointer+"/need", "%d is not between 1 and %d", n, document.MaxNeed)
		return
	}
	w.need = c.expression(pointer+"/need", s.Need, inNeed.withSubject(s.Event))
	w.wild = w.wild || wild(w.distinct, w.need)
}

// resolvesTrigger reports whether each event that triggers a job matches a resolve, apart from its condition.
func resolvesTrigger(d document.Document, s document.Resolve) bool {
	begins := d.Trigger.Subject()
	return s.Event != "" && s.Distinct == "" && begins != "" && s.Key == d.Trigger.KeyExpression() && subjects.Covers(s.Event, begins)
}

// checkNeed refuses a resolve that ends each job as it begins, and one that an earlier resolve makes unreachable.
func (c subscriptionCompiler) checkNeed(pointer string, d document.Document, i int) {
	s := d.Resolve[i]
	if s.Event == "" || s.Distinct != "" {
		return
	}
	if d.Trigger.Heartbeat == nil && resolvesTrigger(d, s) && (s.If == "" || s.If == d.Trigger.If) {
		c.problem(pointer+"/event", "every event that triggers a job also resolves it, so the rule never alerts; add an if to the resolve, which the events of the trigger do not meet")
	}
	for j, before := range d.Resolve[:i] {
		if before.Distinct == "" && before.Key == s.Key && (before.If == "" || before.If == s.If) && before.Event != "" && subjects.Covers(before.Event, s.Event) {
			c.problem(pointer+"/event", "%s already resolves the job on every such event, so this entry is never reached; put the entry with the narrower if first",
				document.FieldOf(c.item("/resolve", j)))
			return
		}
	}
}

// keys checks the entities that a trigger names.
func (c subscriptionCompiler) keys(pointer string, keys []string) {
	if len(keys) > document.MaxKeys {
		c.problem(pointer, "%d keys, the most is %d", len(keys), document.MaxKeys)
		return
	}
	seen := make(map[string]int)
	for i, key := range keys {
		if err := checkKey(key); err != nil && key != "" { // the reader has reported an empty key
			c.problem(document.ItemPointer(pointer, i), "%s", err.Error())
		}
		if first, twice := seen[key]; twice {
			c.problem(document.ItemPointer(pointer, i), "%q is a duplicate of %s; keys are unique", clip(key, 80), document.FieldOf(document.ItemPointer(pointer, first)))
			continue
		}
		seen[key] = i
	}
}

// subscription is an event that a rule listens to.
type subscription struct {
	subject string
	key     *expression
	cond    *expression // nil: every event
	since   *expression // nil: when the stream stored the event
	outcome checks.Outcome
	wild    bool // it reads the tokens that the wildcards of its subject match

	distinct *expression // nil: it is no set
	need     *expression // how many members the set has; nil if distinct is
	set      uint8       // its number in all versions of the rule

	pause pauseRole

	matched *Point // counts the events that match; nil: it is not traced
}

// pauseRole is what an event of a pause does if its condition holds.
type pauseRole uint8

const (
	pausesWhile pauseRole = iota // it begins a pause, and ends one if the condition does not hold
	beginsPause
	endsPause
)

// holds reports whether the watch's condition holds.
func (w *subscription) holds(s scope) (is bool, err error) {
	is = true
	if w.cond != nil {
		is, err = w.cond.holds(s)
	}
	if is && w.matched != nil {
		w.matched.Hits++
	}
	return is, err
}
