package simulation_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// pausesMost is how long a rule waits at most after failures, until the next attempt at its stored schedules.
const pausesMost = 45 * time.Second

// storedHold is how long a planned tick belongs to its node.
const storedHold = 3 * time.Second

// judgeStored judges the ticks and events of a rule with stored schedules.
func (j *judge) judgeStored(ctx context.Context, r orderRule) error {
	id := int32(slices.IndexFunc(j.plan.saved(), func(saved orderRule) bool { return saved.name == r.name }) + 1)
	rows := make(map[string][]futurejobs.ScheduleTick)
	f := futurejobs.TickFilter{Limit: futurejobs.MaxLimit}
	for {
		page, err := j.store.ScheduleTicks(ctx, futurejobs.ScheduleRef{RuleID: id}, f)
		if err != nil {
			return err
		}
		for _, t := range page.Items {
			rows[t.ID] = append(rows[t.ID], t)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		slices.SortFunc(rows[id], func(a, b futurejobs.ScheduleTick) int { return a.At.Compare(b.At) })
		if len(j.schedules[id]) == 0 {
			j.breach("%d ticks of %s, which was never stored", len(rows[id]), id)
		}
	}
	lateIn := j.findStoredDisturbances()
	for _, id := range slices.Sorted(maps.Keys(j.schedules)) {
		s := judgedSchedule{judge: j, rule: r.name, id: id, lateIn: lateIn, versions: j.schedules[id], rows: rows[id]}
		for _, row := range s.rows {
			s.judgeRow(row)
		}
		for i := range s.versions {
			s.judgeVersion(i)
		}
	}
	for _, e := range j.ledger.reports {
		if !slices.ContainsFunc(rows[e.Schedule], func(t futurejobs.ScheduleTick) bool { return t.At.Equal(e.At) }) {
			j.breach("the event %s has no tick", e.ID)
		}
	}
	return nil
}

// findStoredDisturbances returns the times in which something of a stored schedule may be late. After failures its rule waits, up to
// three times as long as they lasted.
func (j *judge) findStoredDisturbances() (all []span) {
	begin := span{j.plan.begin, j.plan.begin.Add(startMost)}
	var last span // without the wait
	for _, f := range slices.SortedFunc(slices.Values(j.plan.faults), func(a, b fault) int { return a.from.Compare(b.from) }) {
		next := span{f.from, f.lastEffect()}
		if n := len(all) - 1; n >= 0 && !next.from.After(all[n].to.Add(recoverMost)) {
			next, all = span{last.from, later(last.to, next.to)}, all[:n]
		}
		last = next
		all = append(all, span{next.from, next.to.Add(min(pausesMost, 3*next.to.Sub(next.from)+lateMost))})
	}
	return slices.Insert(all, 0, begin)
}

// latestStored returns when something of a stored schedule that is due at a time is done at the latest.
func (s judgedSchedule) latestStored(due time.Time) time.Time { return latest(due, s.lateIn) }

// judgedSchedule is a stored schedule with its recorded ticks, in their order.
type judgedSchedule struct {
	*judge
	rule, id string
	lateIn   []span
	versions []scheduleVersion
	rows     []futurejobs.ScheduleTick
}

func (s judgedSchedule) String() string { return s.rule + "/" + s.id }

// end returns the acknowledgement of the version after the i-th; false: there is none.
func (s judgedSchedule) end(i int) (time.Time, bool) {
	if i+1 < len(s.versions) {
		return s.versions[i+1].acked, true
	}
	return time.Time{}, false
}

// isAlike reports whether the i-th version has the ticks of the one before.
func (s judgedSchedule) isAlike(i int) bool {
	return i > 0 && s.versions[i-1].ticksLike(s.versions[i].scheduleText)
}

// may reports whether a version allows something about a tick at a moment. A version that changes the data alone goes on with the
// ticks of the one before.
func (s judgedSchedule) may(tick, moment time.Time, is func(scheduleVersion) bool) bool {
	since := time.Time{}
	for i, v := range s.versions {
		if !s.isAlike(i) {
			since = v.requested
		}
		end, ended := s.end(i)
		if tick.After(since) && !moment.Before(v.requested) && !(ended && moment.After(end)) && v.isTick(tick) && is(v) {
			return true
		}
	}
	return false
}

// states returns the states of the rule that may be in force at a time.
func (s judgedSchedule) states(at time.Time) history { return s.ledger.rules[s.rule].during(at, at) }

// firstChange returns the first acknowledgement of a change of the schedule, or of its rule, after a time; false: there is none.
func (s judgedSchedule) firstChange(after time.Time) (at time.Time, ok bool) {
	note := func(acked time.Time) {
		if !acked.Before(after) && (!ok || acked.Before(at)) {
			at, ok = acked, true
		}
	}
	for _, v := range s.versions {
		note(v.acked)
	}
	for _, c := range s.ledger.rules[s.rule] {
		note(c.ackedBefore)
	}
	return at, ok
}

// mayCancel reports whether a change that was made at a time may cancel a tick. A tick that is not before the first tick of the new
// text belongs to that text.
func (s judgedSchedule) mayCancel(tick, decided time.Time) bool {
	return slices.ContainsFunc(s.versions, func(v scheduleVersion) bool {
		first, ok := v.next(v.requested)
		return !decided.Before(v.requested.Add(-time.Microsecond)) && !decided.After(v.acked) && (!ok || tick.Before(first))
	})
}

// judgeRow judges a recorded tick, and its events.
func (s judgedSchedule) judgeRow(t futurejobs.ScheduleTick) {
	s.count("tick of a stored schedule: " + string(t.Outcome))
	isAny := func(scheduleVersion) bool { return true }
	pauses := func(r ruleState) bool { return r.isPaused }
	starts := func(r ruleState) bool { return r.starts() }
	ended, isEnded := s.firstChange(t.DecidedAt.Add(storedHold))
	switch at := s.at(t.At); {
	case t.At.Sub(t.DecidedAt) > earlyMost:
		s.breach("%s: the tick at %s is decided %s early", s, at, t.At.Sub(t.DecidedAt))
	case t.Outcome == futurejobs.TickPlanned:
		s.breach("%s: the tick at %s is planned at rest", s, at)
	case t.Outcome == futurejobs.TickCanceled && !s.mayCancel(t.At, t.DecidedAt):
		s.breach("%s: the tick at %s is canceled at %s, and no change takes it away then", s, at, s.at(t.DecidedAt))
	case t.Outcome == futurejobs.TickUnknown && !isEnded:
		s.breach("%s: the tick at %s of %s is unknown, and no change was made after its hold", s, at, s.at(t.DecidedAt))
	case t.Outcome == futurejobs.TickUnknown && ended.After(s.latestStored(t.DecidedAt).Add(storedHold)):
		s.breach("%s: the tick at %s of %s is unknown, and was not emitted until the change at %s", s, at, s.at(t.DecidedAt), s.at(ended))
	case !s.may(t.At, t.DecidedAt, isAny):
		s.breach("%s: a tick at %s is decided at %s as %s, and its text has none", s, at, s.at(t.DecidedAt), t.Outcome)
	case t.Outcome == futurejobs.TickPaused && !slices.ContainsFunc(s.states(t.DecidedAt), pauses):
		s.breach("%s: the tick at %s is decided at %s as paused, and the rule is not", s, at, s.at(t.DecidedAt))
	case (t.Outcome == futurejobs.TickEmitted || t.Outcome == futurejobs.TickUnknown) && !slices.ContainsFunc(s.states(t.DecidedAt), starts):
		s.breach("%s: the tick at %s is decided at %s as %s, and the rule is paused or deleted", s, at, s.at(t.DecidedAt), t.Outcome)
	case t.Outcome == futurejobs.TickSkipped || t.Outcome == futurejobs.TickFailed:
		s.breach("%s: the tick at %s is %s: %s", s, at, t.Outcome, t.Reason)
	}
	var events []report
	for _, e := range s.ledger.reports {
		if e.Schedule == s.id && e.At.Equal(t.At) {
			events = append(events, e)
			s.judgeReport(t, e)
		}
	}
	least, most := 0, 0
	switch t.Outcome {
	case futurejobs.TickEmitted:
		least, most = 1, 1
	case futurejobs.TickUnknown:
		most = 1
	}
	if n := len(events); n < least || n > most {
		s.breach("%s: the tick at %s is %s, and the stream has %d events of it", s, s.at(t.At), t.Outcome, n)
	}
}

// judgeReport judges an event of a recorded tick: its text, its data, its subject and its time.
func (s judgedSchedule) judgeReport(t futurejobs.ScheduleTick, e report) {
	switch hasData := func(v scheduleVersion) bool { return v.data == string(e.Data) }; {
	case e.At.Sub(e.storedAt) > earlyMost:
		s.breach("%s: the event of the tick at %s is stored %s early", s, s.at(t.At), e.At.Sub(e.storedAt))
	case e.ID != fmt.Sprintf("%s/%s/%d", s.rule, s.id, t.At.Unix()):
		s.breach("%s: the event of the tick at %s has the id %s", s, s.at(t.At), e.ID)
	case !s.may(t.At, e.storedAt, hasData):
		s.breach("%s: the event of the tick at %s is stored at %s with %s, after a change of the schedule", s, s.at(t.At), s.at(e.storedAt), e.Data)
	case !slices.ContainsFunc(s.states(e.storedAt), func(r ruleState) bool { return r.starts() && r.stored == e.Subject }):
		s.breach("%s: the event of the tick at %s is stored at %s on %s, after a change of the rule", s, s.at(t.At), s.at(e.storedAt), e.Subject)
	case e.storedAt.After(s.latestStored(t.DecidedAt)):
		s.breach("%s: the event of the tick at %s is stored %s after its decision", s, s.at(t.At), e.storedAt.Sub(t.DecidedAt))
	}
	if well := t.At.Add(lateMost); s.latestStored(t.At).Equal(well) {
		s.count("event of a stored schedule in health")
	} else {
		s.count("event of a stored schedule after a fault")
	}
}

// judgeVersion judges the ticks of the i-th version, until its ticks change: each has a row, is counted as missed on the next row, or
// a canceled row stands for it.
func (s judgedSchedule) judgeVersion(i int) {
	v := s.versions[i]
	if s.isAlike(i) {
		return
	}
	end, isReplaced := time.Now(), false
	for k := i + 1; k < len(s.versions) && !isReplaced; k++ {
		if !s.isAlike(k) {
			end, isReplaced = s.versions[k].requested, true
		}
	}
	gone, isDeleted := s.ledger.rules[s.rule].deletion()
	if isDeleted && !isReplaced {
		end = gone.began
	}
	var open []time.Time // ticks without a row
	isCanceled := false
	for at, ok := v.next(v.requested); ok && at.Before(end); at, ok = v.next(at) {
		k, found := slices.BinarySearchFunc(s.rows, at, func(t futurejobs.ScheduleTick, at time.Time) int { return t.At.Compare(at) })
		if !found {
			open = append(open, at)
			continue
		}
		row, first := s.rows[k], at
		isCanceled = isCanceled || row.Outcome == futurejobs.TickCanceled
		if len(open) > 0 {
			first = open[0]
		}
		missed := len(open)
		if row.Outcome == futurejobs.TickPaused { // those before it pass, too
			missed = 0
		}
		if missed != row.Missed && at.After(v.acked) {
			s.breach("%s: the tick at %s stands for %d missed ones, not %d", s, s.at(at), row.Missed, missed)
		}
		if missed > 0 {
			s.count("tick of a stored schedule that stands for missed ones")
		}
		if row.DecidedAt.After(s.latestStored(later(first, v.acked))) {
			s.breach("%s: the tick at %s is decided %s late", s, s.at(first), row.DecidedAt.Sub(first))
		}
		open = nil
	}
	if len(open) > 0 && !isCanceled && (isReplaced || s.latestStored(later(open[0], v.acked)).Before(end)) {
		s.breach("%s: the ticks from %s on, until %s, are not accounted for", s, s.at(open[0]), s.at(end))
	}
}
