package rules

import (
	"iter"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/schedules"
)

// PlannedTicks returns the load of the ticks after now in each part of a span: for each tick and key the first check of
// the job that it will create, at the slot of its first step; for each event that a tick will emit one at the tick. A
// rule that is paused or rests has none, nor does one that cannot be compiled.
func (b *Catalog) PlannedTicks(span futurejobs.BucketRange, now time.Time) []int {
	l := load{BucketRange: span, now: now, parts: make([]int, span.Parts())}
	for _, r := range b.current.Load().ticking {
		v := r.versions[0]
		d := v.document
		if span.Rule != "" && span.Rule != v.saved.Name || r.paused || !d.Enabled || v.schedule == nil {
			continue
		}
		s := v.schedule.From(r.began())
		if d.Trigger.Emit != nil {
			l.addEvents(s)
		} else if compiled, err := v.compiled(); err == nil {
			l.add(compiled, s)
		}
	}
	return l.parts
}

// load counts first checks and events by the parts of a span.
type load struct {
	futurejobs.BucketRange
	now   time.Time
	parts []int
}

// add adds the jobs of a rule. Keys with the same offset are checked together.
func (l *load) add(r *Rule, s schedules.Schedule) {
	turns := turnsOfKeys(r)
	even, spend := *r.escalation, budget{left: previewBudget}
	even.spread = 1
	for tick, ticks := range l.ticks(s, latest(l.now, l.From.Add(-leadTime(r)))) {
		body, err := tickEvent{Tick: tick}.json()
		if err != nil {
			continue // the tick reports the error
		}
		w := contextOf(futurejobs.Job{Ref: futurejobs.Ref{Key: r.ticking.keysAt(tick)[0]}, Since: tick, Event: body})
		w.spend = &spend
		line, err := even.timeline(w)
		if err != nil {
			continue
		}
		first := stepTime{at: tick, step: &step{}}
		if len(line) > 0 {
			first = line[0]
		}
		for turn, keys := range turns {
			at := first.within.Next(first.at.Add(time.Duration(turn) * time.Duration(r.engine.Grid)))
			l.at(r.earlierRecheck(w.scope, tick, r.slotAfter(tick, at)), ticks*keys)
		}
	}
}

// addEvents adds the events that a schedule emits.
func (l *load) addEvents(s schedules.Schedule) {
	for tick, ticks := range l.ticks(s, latest(l.now, l.From.Add(-1))) {
		l.at(tick, ticks)
	}
}

// at counts checks at a slot.
func (l *load) at(slot time.Time, n int) {
	if !slot.Before(l.From) && slot.Before(l.Until) {
		l.parts[l.Part(slot)] += n
	}
}

// roundsMost is about how many ticks are computed one by one in a span.
const roundsMost = 3000

// ticks returns the ticks of a schedule after a time, with their number. If they are many, the last one of a minute
// represents all of it; or of a longer time, if the span is long.
func (l *load) ticks(s schedules.Schedule, after time.Time) iter.Seq2[time.Time, int] {
	width := max(futurejobs.LoadWidth, l.Until.Sub(l.From)/roundsMost)
	shortest := s.Shortest()
	dense := shortest > 0 && shortest < width
	return func(yield func(time.Time, int) bool) {
		for {
			tick, ok := s.Next(after)
			if !ok || !tick.Before(l.Until) {
				return
			}
			n := 1
			if dense {
				n, tick = s.Between(after, tick.Truncate(width).Add(width-1))
			}
			if !yield(tick, n) {
				return
			}
			after = tick
		}
	}
}

// turnsOfKeys returns how many keys have each offset of the spread. Ticks that are keys themselves have an offset each,
// and are all counted with the middle one.
func turnsOfKeys(r *Rule) map[int]int {
	keys := r.document.Trigger.Keys
	if len(keys) == 0 {
		return map[int]int{r.spread / 2: 1}
	}
	turns := make(map[int]int)
	for _, key := range keys {
		turns[r.spreadIndex(key)]++
	}
	return turns
}

// leadTime returns how long before its first check a job may begin.
func leadTime(r *Rule) time.Duration {
	late := time.Duration(r.document.Spread) + time.Duration(r.engine.Grid)
	switch {
	case r.rising && len(r.steps) > 0:
		return r.steps[0].after + late
	case r.rising:
		return late
	}
	return r.engine.Limits.Horizon + late
}
