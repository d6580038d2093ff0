package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// storedDocument returns the document of a rule with stored schedules.
func (r orderRule) storedDocument() string {
	return fmt.Sprintf("name: %s\nentity: order\ntrigger: {schedule: \"@stored\", emit: {subject: %s}}\n", r.name, r.stored)
}

// scheduleText is a stored schedule as a person writes it.
type scheduleText struct {
	every   time.Duration // zero: minutes
	minutes int           // of a crontab; zero, too: it is deleted
	enabled bool
	data    string
}

// isGone reports whether the schedule is deleted.
func (s scheduleText) isGone() bool { return s.every == 0 && s.minutes == 0 }

// ticksLike reports whether two texts have the same ticks.
func (s scheduleText) ticksLike(other scheduleText) bool {
	s.data = other.data
	return s == other
}

// text returns the schedule as a crontab or an interval.
func (s scheduleText) text() string {
	if s.every > 0 {
		return "@every " + s.every.String()
	}
	return fmt.Sprintf("*/%d * * * *", s.minutes)
}

// scheduleEdit is what a change does to one schedule.
type scheduleEdit struct {
	id string
	to scheduleText
}

// scheduleChange is a change of stored schedules in one request. The next one of the plan waits until the database acknowledges it.
type scheduleChange struct {
	at     time.Time
	isAmid bool          // it waits for the next tick of its first schedule
	offset time.Duration // from that tick
	delay  time.Duration // from the request to the transaction
	edits  []scheduleEdit
}

// drawStored draws a rule with stored schedules, their changes, and those of the rule. The rule is paused or deleted at last.
func (p *plan) drawStored(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	rule := orderRule{name: "stored", stored: []string{"stored.due", "stored.again"}[r.IntN(2)]}
	first := make(map[string]scheduleText)
	var ids []string
	for i := range 2 + r.IntN(4) {
		id := fmt.Sprintf("schedule-%d", i)
		ids, first[id] = append(ids, id), drawSchedule(r, 0)
	}
	p.scheduleChanges = append(p.scheduleChanges, scheduleChange{at: p.begin, edits: editsOf(ids, first)})
	for range 2 + r.IntN(10) {
		p.drawScheduleChange(r, ids)
	}
	for range r.IntN(3) {
		f := p.drawStoredFault(r)
		p.faults = append(p.faults, f)
		c := scheduleChange{at: f.from.Add(ms(r, 0, 6*time.Second)), edits: []scheduleEdit{{ids[r.IntN(len(ids))], drawSchedule(r, len(p.scheduleChanges))}}}
		p.scheduleChanges = append(p.scheduleChanges, c)
	}
	slices.SortStableFunc(p.scheduleChanges, func(a, b scheduleChange) int { return a.at.Compare(b.at) })
	p.keepTicks(r, first)
	p.drawStoredRuleChanges(r, rule)
	p.withStored = append(p.withStored, rule)
}

// drawScheduleChange draws a change of one schedule or of all of them, most often about at a tick.
func (p *plan) drawScheduleChange(r *rand.Rand, ids []string) {
	c := scheduleChange{at: p.begin.Add(ms(r, time.Second, faultyFor+20*time.Second)), isAmid: r.IntN(4) > 0, offset: amidTick(r, epoch).Sub(epoch)}
	if r.IntN(3) == 0 {
		c.delay = ms(r, 0, 3*time.Second)
	}
	some := []string{ids[r.IntN(len(ids))]}
	if r.IntN(3) == 0 {
		some = slices.Clone(ids)
		r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	for _, id := range some {
		c.edits = append(c.edits, scheduleEdit{id, drawSchedule(r, len(p.scheduleChanges))})
	}
	p.scheduleChanges = append(p.scheduleChanges, c)
}

// keepTicks makes half of the changes of schedules such that change the data alone, or disable or enable the schedule.
func (p *plan) keepTicks(r *rand.Rand, now map[string]scheduleText) {
	for _, c := range p.scheduleChanges[1:] {
		for k := range c.edits {
			e := &c.edits[k]
			if was := now[e.id]; !was.isGone() && !e.to.isGone() {
				switch r.IntN(6) {
				case 0, 1:
					e.to = scheduleText{was.every, was.minutes, was.enabled, e.to.data}
				case 2:
					e.to = scheduleText{was.every, was.minutes, !was.enabled, e.to.data}
				}
			}
			now[e.id] = e.to
		}
	}
}

// drawStoredRuleChanges draws the changes of a rule with stored schedules.
func (p *plan) drawStoredRuleChanges(r *rand.Rand, rule orderRule) {
	for range r.IntN(4) {
		c := change{at: p.begin.Add(ms(r, time.Second, faultyFor)), kind: []changeKind{saves, saves, pauses, resumes, resumes}[r.IntN(5)], rule: rule, afterTick: amidTick(r, epoch).Sub(epoch)}
		if c.kind == saves {
			c.rule.stored = []string{"stored.due", "stored.again"}[r.IntN(2)]
		}
		p.changes = append(p.changes, c)
	}
	slices.SortStableFunc(p.changes, func(a, b change) int { return a.at.Compare(b.at) })
	last := p.begin.Add(faultyFor + ms(r, 20*time.Second, time.Minute)).Truncate(time.Second)
	for _, c := range p.changes {
		last = later(last, c.at)
	}
	p.changes = append(p.changes, change{at: last, afterTick: amidTick(r, epoch).Sub(epoch), kind: []changeKind{pauses, deletes}[r.IntN(2)], rule: rule})
}

// drawStoredFault draws a fault that begins while the events of a tick are on their way.
func (p *plan) drawStoredFault(r *rand.Rand) fault {
	f := fault{from: p.begin.Add(ms(r, 5*time.Second, faultyFor)).Truncate(time.Second).Add(ms(r, 0, 8*time.Millisecond))}
	f.to = f.from.Add(ms(r, 200*time.Millisecond, 12*time.Second))
	switch r.IntN(6) {
	case 0:
		f.kind, f.node = kill, p.nodes[r.IntN(len(p.nodes))]
	case 1:
		f.kind, f.share = fails[streams], 1
	case 2:
		f.kind, f.share = slow[streams], 0.5
	case 3:
		f.kind = publications
	case 4:
		f.kind, f.node = hang, p.nodes[r.IntN(len(p.nodes))]
	default:
		f.kind = stalls[streams]
	}
	return f
}

// drawSchedule draws a schedule of the n-th change.
func drawSchedule(r *rand.Rand, n int) scheduleText {
	s := scheduleText{enabled: r.IntN(6) > 0, data: fmt.Sprintf(`{"change":%d}`, n)}
	switch r.IntN(6) {
	case 0:
		s.minutes = 1 + r.IntN(2)
	case 1:
		if n == 0 {
			s.minutes = 1
		}
	default:
		s.every = []time.Duration{3 * time.Second, 7 * time.Second, 10 * time.Second, 25 * time.Second, 40 * time.Second}[r.IntN(5)]
	}
	return s
}

func editsOf(ids []string, texts map[string]scheduleText) (all []scheduleEdit) {
	for _, id := range ids {
		all = append(all, scheduleEdit{id, texts[id]})
	}
	return all
}

// scheduleVersion is a text of a schedule that the database accepted. Between its request and its acknowledgement it may be in
// force, or the one before it.
type scheduleVersion struct {
	scheduleText
	requested, acked time.Time
	anchor           time.Time // one of its ticks; zero: it has none
}

// next returns the first tick after a time; false: it has none.
func (v scheduleVersion) next(after time.Time) (time.Time, bool) {
	switch {
	case v.isGone() || !v.enabled:
		return after, false
	case v.every > 0:
		at := v.anchor.Add(after.Sub(v.anchor).Truncate(v.every))
		for !at.After(after) {
			at = at.Add(v.every)
		}
		return at, true
	}
	at := after.Truncate(time.Minute).Add(time.Minute)
	for at.Minute()%v.minutes != 0 {
		at = at.Add(time.Minute)
	}
	return at, true
}

// isTick reports whether a time is a tick.
func (v scheduleVersion) isTick(at time.Time) bool {
	tick, ok := v.next(at.Add(-1))
	return ok && tick.Equal(at)
}

// edit makes the changes of schedules of the plan.
func (w *deployment) edit() {
	for _, c := range w.plan.scheduleChanges {
		time.Sleep(time.Until(c.at))
		if c.isAmid {
			w.awaitTick(c.offset, c.edits[0].id)
		}
		for w.put(c) != nil {
			w.count("change of schedules failed")
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// tickWaitMost is how long a change waits at most for a tick.
const tickWaitMost = 10 * time.Second

// awaitTick waits for the next tick of one of some schedules, and a time after it; without ids, of any schedule.
func (w *deployment) awaitTick(offset time.Duration, ids ...string) {
	now := time.Now()
	next := now.Add(tickWaitMost)
	w.mu.Lock()
	for id, past := range w.schedules {
		if at, ok := past[len(past)-1].next(now); ok && at.Before(next) && (len(ids) == 0 || slices.Contains(ids, id)) {
			next = at
		}
	}
	w.mu.Unlock()
	if next.Before(now.Add(tickWaitMost)) {
		time.Sleep(time.Until(next.Add(offset)))
	}
}

// put makes a change of schedules, as package server does, and records the accepted versions. A deleted rule has no schedules.
func (w *deployment) put(c scheduleChange) error {
	ctx := context.Background()
	if err := w.catalog.Refresh(ctx); err != nil {
		return err
	}
	rule, err := rules.StoredCatalog{Catalog: w.catalog}.StoredRule(w.plan.withStored[0].name)
	if err != nil {
		return unlessDeleted(err)
	}
	requested := time.Now()
	var put []futurejobs.Schedule
	var gone []futurejobs.ScheduleRef
	versions := make(map[string]scheduleVersion)
	for _, e := range c.edits {
		v := scheduleVersion{scheduleText: e.to, requested: requested}
		if e.to.isGone() {
			gone = append(gone, futurejobs.ScheduleRef{RuleID: rule.RuleID(), ID: e.id})
		} else {
			s := futurejobs.Schedule{ID: e.id, Text: e.to.text(), Enabled: e.to.enabled, Data: json.RawMessage(e.to.data)}
			if err := rule.Prepare(&s, requested); err != nil {
				return err
			}
			v.anchor, put = s.NextAt, append(put, s)
		}
		versions[e.id] = v
	}
	time.Sleep(c.delay)
	if _, err := w.store.PutSchedules(ctx, put, gone); err != nil {
		return unlessDeleted(err)
	}
	w.count("change of schedules")
	for _, e := range c.edits {
		v := versions[e.id]
		v.acked = time.Now()
		w.mu.Lock()
		w.schedules[e.id] = append(w.schedules[e.id], v)
		w.mu.Unlock()
		w.record("person", "changes %s of %s: %s, enabled: %t, %s", e.id, w.plan.withStored[0].name, e.to.text(), e.to.enabled, e.to.data)
	}
	return nil
}

func unlessDeleted(err error) error {
	if errors.Is(err, futurejobs.ErrNotFound) {
		return nil
	}
	return err
}
