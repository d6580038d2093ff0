package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"deadman/internal/store"
	"deadman/rules"
)

// changeKind is what a person does to a rule.
type changeKind string

// The kinds of changes.
const (
	saves   changeKind = "save"
	pauses  changeKind = "pause"
	resumes changeKind = "resume"
	deletes changeKind = "delete"
)

// change is a change of a rule. The next change of the plan waits until the database acknowledges it.
type change struct {
	at   time.Time
	kind changeKind
	rule orderRule // by its name; saved as a whole

	afterTick time.Duration // from a tick of a stored schedule of the rule
}

// drawChanges draws changes of rules. Half of them are made about when a step is due or when an event is stored.
func (p *plan) drawChanges(r *rand.Rand) {
	ends := make(map[string]bool)
	for range max(0, r.IntN(8)-3) {
		i := r.IntN(len(p.rules))
		e := p.events[r.IntN(len(p.events))]
		c := change{rule: drawRule(r, i)}
		c.rule.restarts = p.rules[i].restarts
		switch c.rule.shipping = p.rules[i].shipping; r.IntN(4) {
		case 0:
			c.at = p.begin.Add(ms(r, 0, faultyFor+30*time.Second))
		case 1:
			c.at = e.at.Add(ms(r, 0, 20*time.Millisecond))
		default:
			c.at = amid(r, slotUp(e.at.Add(p.rules[i].steps[0]), p.rules[i].slot), time.Second)
		}
		c.kind = []changeKind{saves, pauses, resumes, pauses, resumes, deletes}[r.IntN(6)]
		p.changes = append(p.changes, c)
	}
	slices.SortStableFunc(p.changes, func(a, b change) int { return a.at.Compare(b.at) })
	p.changes = slices.DeleteFunc(p.changes, func(c change) bool {
		isOver := ends[c.rule.name]
		ends[c.rule.name] = isOver || c.kind == deletes
		return isOver
	})
}

// ruleState is the state of a rule from one change to the next. Between its begin and its acknowledgement, a change may have taken
// effect or not.
type ruleState struct {
	orderRule
	version            int32
	isPaused, isGone   bool
	began, ackedBefore time.Time // of the change to the state
	until              time.Time // acknowledgement of the next change; zero: none
}

// starts reports whether the events of the state start jobs.
func (s ruleState) starts() bool { return !s.isPaused && !s.isGone }

// history is the states of a rule.
type history []ruleState

// during returns the states that may be in force at some time of a span.
func (h history) during(from, to time.Time) (all []ruleState) {
	for _, s := range h {
		if !s.began.After(to) && (s.until.IsZero() || !s.until.Before(from)) {
			all = append(all, s)
		}
	}
	return all
}

// deletion returns the state of a deleted rule.
func (h history) deletion() (gone ruleState, ok bool) {
	if len(h) == 0 {
		return gone, false
	}
	last := h[len(h)-1]
	return last, last.isGone
}

// change makes the changes of the plan.
func (w *deployment) change() {
	for _, c := range w.plan.changes {
		time.Sleep(time.Until(c.at))
		if c.rule.stored != "" {
			w.awaitTick(c.afterTick)
		}
		began := time.Now()
		for w.make(c) != nil {
			w.count("change of a rule failed")
			time.Sleep(time.Second)
		}
		w.count("rule: " + string(c.kind))
		w.record("person", "%s %s", c.kind, c.rule.name)
		w.ledger.begin()(nil, func(l *ledger) { l.changed(c, began) }) // a change that waits for a tick holds no turn
		if c.kind == deletes && c.rule.beats.every > 0 {
			w.purge()
		}
	}
}

// purge ends the jobs of a deleted rule that no check would end soon, as the maintenance of a node does.
func (w *deployment) purge() {
	registry := rules.Registry{Store: w.store, Catalog: w.catalog, Jobs: w.store}
	for {
		err := w.catalog.Refresh(context.Background())
		if err == nil {
			_, err = registry.EndJobsOfDeletedRules(context.Background())
		}
		if err == nil {
			return
		}
		w.count("purge failed")
		time.Sleep(time.Second)
	}
}

// make makes a change.
func (w *deployment) make(c change) error {
	ctx, all := context.Background(), w.store
	switch c.kind {
	case saves:
		return saveRule(ctx, all, c.rule)
	case deletes:
		_, err := all.Delete(ctx, c.rule.name, rules.AnyVersion)
		return err
	}
	return all.Pause(ctx, c.rule.name, c.kind == pauses)
}

// saveRule saves a rule that reads its streams from the beginning.
func saveRule(ctx context.Context, to *store.Store, r orderRule) error {
	documents, err := rules.Parse([]byte(r.document()), r.name)
	if err != nil {
		return err
	}
	document, err := documents[0].Canonical()
	if err != nil {
		return err
	}
	saved := rules.RuleVersion{Name: r.name, Entity: documents[0].Entity, Document: document}
	for _, subject := range documents[0].Subjects() {
		saved.Reads = append(saved.Reads, rules.StreamBinding{Subject: subject, Stream: streamOf(subject)})
	}
	if _, err = to.Save(ctx, saved, rules.AnyVersion); err != nil {
		return fmt.Errorf("save %s: %w", r.name, err)
	}
	return nil
}

// changed records that the database acknowledged a change.
func (l *ledger) changed(c change, began time.Time) {
	h := slices.Clone(l.rules[c.rule.name])
	next := ruleState{orderRule: c.rule, version: 1, began: began, ackedBefore: l.now}
	if len(h) > 0 {
		last := &h[len(h)-1]
		last.until = next.ackedBefore
		if c.kind != saves {
			next.orderRule = last.orderRule
		}
		next.version, next.isPaused = last.version, last.isPaused
	}
	switch {
	case c.kind == deletes:
		next.isGone = true
	case c.kind == saves && len(h) > 0:
		next.version++
	case c.kind != saves:
		next.isPaused = c.kind == pauses
	}
	l.rules[c.rule.name] = append(h, next)
}
