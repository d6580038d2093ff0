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

// PreviewTick is a tick to come, and what it leads to where nothing else happens.
type PreviewTick struct {
	At    time.Time     `json:"at"`
	Steps []PreviewStep `json:"steps,omitempty"`
	Emits string        `json:"emits,omitempty"` // the subject of the event that it publishes
}

// PreviewStep is a step, and the slot at which it is taken; for the first time, where it is repeated.
type PreviewStep struct {
	Step string    `json:"step"`
	At   time.Time `json:"at"`
}

// previewTicks plays the ticks of a rule from the instant of the first event, and the events after
// that. It follows the wait that the next tick begins, for the first of the rule's keys, to its end,
// or as far as until.
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

// enough reports whether nothing more is to be played, with so many events to come.
func (p *previewing) enough(ctx context.Context, events int) bool {
	ended := p.out.Key != "" && p.job == nil || p.document.Handler != ""
	return p.over || p.once && ended && events == 0 || p.isCut(ctx)
}

// tick plays a tick.
func (p *previewing) tick(at time.Time) {
	p.seq++
	d := futurejobs.DueTicks{At: at}
	p.Rule.tick(&p.engine, at, 1, &d)
	for _, remark := range d.Remarks {
		p.out.Refusals = append(p.out.Refusals, remark.Text)
	}
	if d.Emit != nil && p.out.Key == "" {
		p.over, p.out.Reason = true, fmt.Sprintf("nothing is waited for: a tick publishes an event on %s", d.Emit.Subject)
	}
	for _, effect := range d.Effects {
		p.apply(effect, PreviewEvent{Subject: "a tick", At: at})
	}
}

// close says why nothing is waited for, or nothing more is known.
func (p *previewing) close() {
	switch {
	case p.document.Handler != "" && p.job != nil:
		p.out.Reason = "the preview ends here: what the handler " + p.document.Handler + " answers is known once it is asked"
	case p.out.Key == "" && p.out.Reason == "":
		p.out.Reason = "the schedule does not tick any more"
	}
}

// slotAfter is the slot of a look that is due at an instant, at a wait that a tick begins: one that is
// due by the tick itself comes a slot later.
func (r *Rule) slotAfter(tick, at time.Time) time.Time {
	return latest(r.engine.Grid.Up(at), r.engine.Grid.After(tick))
}

// ticksFrom are the next ticks after an instant, with the slots of their steps. A step that can't
// be reckoned without its job is left out.
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
