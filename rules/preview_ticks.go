package rules

import (
	"cmp"
	"context"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// ticksShown is how many ticks a preview lists.
const ticksShown = 5

// PreviewTick is a future tick, and its result if no other event happens.
type PreviewTick struct {
	At    time.Time     `json:"at" doc:"Time of the tick."`
	Steps []PreviewStep `json:"steps,omitempty" doc:"Slots of the steps, if no event happens."`
	Emits string        `json:"emits,omitempty" doc:"Subject of the event that the tick publishes."`
}

// PreviewStep is a step, and its slot; the first one, if it is repeated.
type PreviewStep struct {
	Step string    `json:"step" doc:"Name of the step."`
	At   time.Time `json:"at" doc:"Slot of the step; the first one if it is repeated."`
}

// previewTicks plays the ticks of a rule from the time of the first event, and the events after that. It follows the
// job of the next tick, for the first of the rule's keys, to its end, or as far as until.
func (r *Rule) previewTicks(ctx context.Context, events []PreviewEvent, until time.Time) (Preview, error) {
	from, events := events[0], events[1:]
	if from.Subject != "" || len(from.Data) > 0 {
		return Preview{}, fmt.Errorf("%w: a schedule begins the wait and no event; leave the event out, or give the time alone from which it ticks", ErrPreview)
	}
	p := previewing{
		Rule: r, out: r.nothingYet(),
		early: make(map[futurejobs.Ref]futurejobs.EarlyEvent), once: until.IsZero(),
	}
	p.out.Zone = cmp.Or(r.document.Trigger.Zone, "UTC")
	if until.IsZero() {
		until = futurejobs.FarFuture
	}
	tick, ticks := r.ticking.schedule.Next(from.At)
	for range maxPreview {
		switch {
		case len(events) > 0 && (!ticks || events[0].At.Before(tick)) && events[0].At.Before(until):
			p.looks(ctx, events[0].At.Add(-time.Microsecond))
			p.event(events[0])
			events = events[1:]
		case ticks && tick.Before(until):
			p.looks(ctx, tick.Add(-time.Microsecond))
			p.tick(tick)
			tick, ticks = r.ticking.schedule.Next(tick)
		default:
			p.over = true
		}
		if p.enough(ctx, len(events)) {
			break
		}
	}
	p.looks(ctx, until.Add(-time.Microsecond))
	p.close()
	p.out.Ticks = r.ticksFrom(from.At)
	return p.out, nil
}

// enough reports whether nothing more is to be played, with the given number of events left.
func (p *previewing) enough(ctx context.Context, events int) bool {
	ended := p.out.Key != "" && p.job == nil || p.document.Handler != ""
	return p.over || p.once && ended && events == 0 || p.isCut(ctx)
}

// tick plays a tick.
func (p *previewing) tick(at time.Time) {
	p.seq++
	d := futurejobs.DueTicks{At: at}
	p.Rule.tick(&p.engine, at, 1, &d)
	for _, remark := range d.Alerts {
		p.out.Refusals = append(p.out.Refusals, remark.Text)
	}
	if d.Emit != nil && p.out.Key == "" {
		p.over, p.out.Reason = true, fmt.Sprintf("nothing is waited for: a tick publishes an event on %s", d.Emit.Subject)
	}
	for _, effect := range d.Effects {
		p.apply(effect, PreviewEvent{Subject: "a tick", At: at})
	}
}

// close explains why no job is pending, or no more is known.
func (p *previewing) close() {
	switch {
	case p.document.Handler != "" && p.job != nil:
		p.out.Reason = "the preview ends here: what the handler " + p.document.Handler + " answers is known once it is asked"
	case p.out.Key == "" && p.out.Reason == "":
		p.out.Reason = "the schedule does not tick any more"
	}
}

// slotAfter returns the slot of a check that is due at a time, for the job of a tick: a check that is due by the tick
// itself comes a slot later.
func (r *Rule) slotAfter(tick, at time.Time) time.Time {
	return latest(r.engine.Grid.Up(at), r.engine.Grid.After(tick))
}

// ticksFrom returns the next ticks after a time, with the slots of their steps. A step that cannot be computed without
// its job is left out.
func (r *Rule) ticksFrom(from time.Time) []PreviewTick {
	all := []PreviewTick{}
	tick, ok := r.ticking.schedule.Next(from)
	for ; ok && len(all) < ticksShown; tick, ok = r.ticking.schedule.Next(tick) {
		t := PreviewTick{At: tick}
		if emit := r.document.Trigger.Emit; emit != nil {
			t.Emits = emit.Subject
		}
		if body, err := (tickEvent{Tick: tick}).json(); err == nil {
			line, _ := r.timeline(waitOf(futurejobs.Job{Ref: futurejobs.Ref{Key: r.keysAt(tick)[0]}, Since: tick, Event: body}))
			for _, m := range line {
				if m.turn == 1 {
					t.Steps = append(t.Steps, PreviewStep{Step: m.name, At: r.slotAfter(tick, m.at)})
				}
			}
		}
		all = append(all, t)
	}
	return all
}
