package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	futurejobs "deadman/future_jobs"
)

// modelStream is a stream at its worst: it is away, refuses events, answers late, and stores events without an answer.
type modelStream struct {
	away atomic.Bool
	calm atomic.Bool // it has no other faults

	mu     sync.Mutex
	random *rand.Rand
	ids    map[string]int // how often an event is stored
	at     map[string]time.Time
	data   map[string]string
}

// streamOf is a stream as one node sees it.
type streamOf struct {
	*modelStream
	node *virtualNode
}

var errAway = errors.New("the stream is away")

// PublishTicks implements scheduler.StoredEmitter. As the publisher does, it searches for events that may be stored.
func (s streamOf) PublishTicks(ctx context.Context, all []futurejobs.Emission) (stored []bool, err error) {
	stored = make([]bool, len(all))
	s.mu.Lock()
	fault, cut := s.random.IntN(20), s.random.IntN(len(all)+1)
	latency := time.Duration(s.random.IntN(30)) * time.Millisecond
	if fault == 0 {
		latency = time.Duration(s.random.IntN(2900)) * time.Millisecond // also after the caller gave up, within its hold
	}
	s.mu.Unlock()
	if s.calm.Load() {
		fault, latency = -1, time.Millisecond
	}
	time.Sleep(latency)
	if s.away.Load() || s.node.isDead.Load() || fault == 1 {
		return stored, errAway
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range all {
		if fault == 2 && i >= cut {
			return stored, errAway // the others are not stored
		}
		if _, found := s.at[e.ID]; found && e.MayBeStored {
			stored[i] = true
			continue
		}
		if first, found := s.at[e.ID]; !found || time.Since(first) > time.Second { // a short duplicate window
			s.ids[e.ID]++
			s.at[e.ID], s.data[e.ID] = time.Now(), string(e.Data)
		}
		stored[i] = true
	}
	if fault == 3 || ctx.Err() != nil {
		return make([]bool, len(all)), errAway // stored without an answer
	}
	return stored, nil
}

// version is a version of a drawn schedule.
type version struct {
	text      string // empty: it is deleted
	enabled   bool
	data      string
	requested time.Time // its change
	from      time.Time // the acknowledgement of its change
	anchor    time.Time // its first tick

	matches func(minute time.Time) bool // of a crontab
	every   time.Duration
}

// isTick reports whether an instant is a tick, by the text alone.
func (n version) isTick(at time.Time) bool {
	switch {
	case n.text == "" || !n.enabled:
		return false
	case n.every > 0:
		return at.Sub(n.anchor)%n.every == 0
	}
	return at.Second() == 0 && n.matches(at)
}

// ticksLike reports whether two versions have the same ticks.
func (n version) ticksLike(other version) bool {
	return n.text == other.text && n.enabled == other.enabled
}

// ticksBetween returns the ticks in [from, to), a step at a time.
func (n version) ticksBetween(from, to time.Time) (all []time.Time) {
	if n.text == "" || !n.enabled {
		return nil
	}
	at, step := from.Truncate(time.Minute), time.Minute
	if n.every > 0 {
		step = n.every
		at = n.anchor
		if behind := from.Sub(at); behind > 0 {
			at = at.Add(behind.Truncate(step))
		}
	}
	for ; at.Before(to); at = at.Add(step) {
		if !at.Before(from) && !at.Before(n.anchor) && n.isTick(at) {
			all = append(all, at)
		}
	}
	return all
}

// drawnSchedule is a schedule with its versions.
type drawnSchedule struct {
	id       string
	versions []version
}

// respelled returns a version with the same ticks and another text.
func (n version) respelled() version {
	if n.every > 0 {
		n.text = fmt.Sprintf("@every %ds", int(n.every.Seconds()))
	} else if text, found := strings.CutSuffix(n.text, "/1"); found {
		n.text = text
	} else {
		n.text += "/1"
	}
	return n
}

// draw draws the next version of a schedule: a deletion or a schedule, with intervals of 5 to 905 seconds times a scale.
func (d *drawnSchedule) draw(random *rand.Rand, scale int) version {
	n := version{enabled: random.IntN(6) > 0, data: fmt.Sprintf(`{"version":%d}`, len(d.versions))}
	minute, hour := random.IntN(60), random.IntN(24)
	if last := len(d.versions) - 1; last >= 0 && d.versions[last].text != "" {
		kept := d.versions[last]
		kept.data = n.data
		switch random.IntN(6) {
		case 0: // other data alone
			return kept
		case 1:
			return kept.respelled()
		case 2:
			return version{}
		}
	}
	switch random.IntN(6) {
	case 0:
		n.every = time.Duration(scale*(5+random.IntN(900))) * time.Second
		n.text = "@every " + n.every.String()
	case 1:
		step := []int{5, 10, 15, 20, 30}[random.IntN(5)]
		n.text, n.matches = fmt.Sprintf("*/%d * * * *", step), func(at time.Time) bool { return at.Minute()%step == 0 }
	case 2:
		n.text, n.matches = fmt.Sprintf("%d %d * * *", minute, hour), func(at time.Time) bool { return at.Minute() == minute && at.Hour() == hour }
	case 3:
		n.text, n.matches = fmt.Sprintf("%d %d-23 * * *", minute, hour), func(at time.Time) bool { return at.Minute() == minute && at.Hour() >= hour }
	default:
		n.text, n.matches = fmt.Sprintf("%d * * * *", minute), func(at time.Time) bool { return at.Minute() == minute }
	}
	return n
}

// check compares the recorded ticks and the stream with the oracle.
func (v *virtualSchedules) check() {
	v.Helper()
	counts, events := make(map[string]int), len(v.stream.ids)
	for id, n := range v.stream.ids {
		if n != 1 {
			v.Errorf("event %s is stored %d times", id, n)
		}
	}
	for _, d := range v.all {
		rows := v.rowsOf(d)
		for _, r := range rows {
			counts[string(r.Outcome)]++
			counts["missed"] += r.Missed
			events -= v.checkRow(d, r)
		}
		if breach := d.unaccounted(rows); breach != "" {
			v.Errorf("schedule %s: %s", d.id, breach)
		}
	}
	if events != 0 {
		v.Errorf("%d events are of no recorded tick", events)
	}
	v.Logf("%d schedules: ticks %v; actions %v", len(v.all), counts, v.actions)
	for _, outcome := range []futurejobs.TickOutcome{futurejobs.TickEmitted, futurejobs.TickPaused, "missed"} {
		if counts[string(outcome)] == 0 {
			v.Errorf("no tick is %s, so the run proves little", outcome)
		}
	}
}

// checkRow compares a recorded tick with the stream, and returns the number of its events.
func (v *virtualSchedules) checkRow(d *drawnSchedule, r futurejobs.ScheduleTick) int {
	v.Helper()
	id := fmt.Sprintf("reports/%s/%d", d.id, r.At.Unix())
	n := v.stream.ids[id]
	switch r.Outcome {
	case futurejobs.TickEmitted:
		if n != 1 {
			v.Errorf("tick %s is emitted, and the stream has %d events of it", id, n)
		}
	case futurejobs.TickUnknown:
	case futurejobs.TickPlanned:
		v.Errorf("tick %s is planned at rest", id)
	default:
		if n != 0 {
			v.Errorf("tick %s is %s, and the stream has an event of it", id, r.Outcome)
		}
	}
	if n == 0 {
		return 0
	}
	at := v.stream.at[id]
	for i, version := range d.versions {
		if version.from.Before(at) && (i+1 == len(d.versions) || at.Before(d.versions[i+1].requested)) && v.stream.data[id] != version.data {
			v.Errorf("event %s is stored at %s with %s, after the change to %q", id, at, v.stream.data[id], version.data)
		}
	}
	for _, p := range v.pauses {
		if p.from.Before(at) && at.Before(p.to) {
			v.Errorf("event %s is stored at %s, while the rule is paused since %s", id, at, p.from)
		}
	}
	return n
}

// rowsOf returns the recorded ticks of a schedule, the first one first.
func (v *virtualSchedules) rowsOf(d *drawnSchedule) (all []futurejobs.ScheduleTick) {
	v.Helper()
	f := futurejobs.TickFilter{Limit: futurejobs.MaxLimit}
	for {
		page, err := v.store.ScheduleTicks(v.Context(), futurejobs.ScheduleRef{RuleID: v.rule.RuleID, ID: d.id}, f)
		v.must(err)
		all = append(all, page.Items...)
		if f.Cursor = page.Next; f.Cursor == "" {
			slices.Reverse(all)
			return all
		}
	}
}

// unaccounted returns a tick without a row that no row counts as missed, a row that is no tick, or a wrong count; empty: none
// exists. Ticks between the request and the acknowledgement of a change may be those of either version.
func (d *drawnSchedule) unaccounted(rows []futurejobs.ScheduleTick) string {
	var breaches []string
	for i, n := range d.versions {
		if i > 0 && d.versions[i-1].ticksLike(n) { // other data alone
			continue
		}
		end := time.Now().Add(-time.Minute)
		for _, later := range d.versions[i+1:] {
			if !later.ticksLike(n) {
				end = later.requested
				break
			}
		}
		ticks := n.ticksBetween(n.requested.Add(1), end)
		missed, isCanceled := 0, false
		for _, at := range ticks {
			k, found := slices.BinarySearchFunc(rows, at, func(r futurejobs.ScheduleTick, at time.Time) int { return r.At.Compare(at) })
			if !found {
				missed++
				continue
			}
			r := rows[k]
			isCanceled = isCanceled || r.Outcome == futurejobs.TickCanceled
			if r.Outcome == futurejobs.TickPaused { // those before it pass, too
				missed = 0
			}
			if missed != r.Missed && at.After(n.from) {
				breaches = append(breaches, fmt.Sprintf("tick %s of %s has %d missed ones before it, not %d", at.Format(time.DateTime), n.text, r.Missed, missed))
			}
			missed = 0
		}
		if missed > 0 && !isCanceled {
			breaches = append(breaches, fmt.Sprintf("%d ticks of %s before %s are not accounted for", missed, n.text, end.Format(time.DateTime)))
		}
	}
	for _, r := range rows {
		if !slices.ContainsFunc(d.versions, func(n version) bool { return n.isTick(r.At) }) {
			breaches = append(breaches, fmt.Sprintf("%s is no tick", r.At))
		}
	}
	return strings.Join(breaches, "; ")
}
