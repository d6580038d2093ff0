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

// tickPreview is a preview of a rule's ticks, from the time of the first event.
type tickPreview struct {
	previewing
	from   time.Time
	events []PreviewEvent // after it, not played yet
	once   bool           // it ends with the first job
}

// previewTicks plays the ticks of a rule from the time of the first event, and the events after that. It follows the
// job of the next tick, for the first of the rule's keys, to its end, or as far as until.
func previewTicks(ctx context.Context, r *Rule, events []PreviewEvent, until time.Time) (Preview, error) {
	first := events[0]
	if first.Subject != "" || len(first.Data) > 0 {
		return Preview{}, fmt.Errorf("%w: a schedule triggers the jobs, not an event; remove the event, or send only the time to tick from", ErrPreview)
	}
	p := tickPreview{previewing: newPreviewing(r), from: first.At, events: events[1:], once: until.IsZero()}
	p.single = p.once
	p.out.Zone = cmp.Or(r.document.Trigger.Zone, "UTC")
	if until.IsZero() {
		until = futurejobs.FarFuture
	}
	p.play(ctx, until)
	p.explainEnd()
	p.out.Ticks = p.nextTicks()
	return p.out, nil
}

// play plays the ticks, and the events and checks between them.
func (p *tickPreview) play(ctx context.Context, until time.Time) {
	tick, ticks := p.ticking.schedule.Next(p.from)
	for range maxPreview {
		switch {
		case len(p.events) > 0 && (!ticks || p.events[0].At.Before(tick)) && p.events[0].At.Before(until):
			p.checkUntil(ctx, p.events[0].At.Add(-time.Microsecond))
			p.event(p.events[0])
			p.events = p.events[1:]
		case ticks && tick.Before(until):
			p.checkUntil(ctx, tick.Add(-time.Microsecond))
			p.tick(tick)
			tick, ticks = p.ticking.schedule.Next(tick)
		default:
			p.over = true
		}
		if p.isDone(ctx) {
			break
		}
	}
	p.checkUntil(ctx, until.Add(-time.Microsecond))
}

// isDone reports whether no tick or event is left to be played.
func (p *tickPreview) isDone(ctx context.Context) bool {
	ended := p.out.Key != "" && p.job == nil || p.document.Handler != ""
	return p.over || p.once && ended && len(p.events) == 0 || p.isCut(ctx)
}

// tick plays a tick.
func (p *tickPreview) tick(at time.Time) {
	p.seq++
	d := futurejobs.DueTicks{At: at}
	(&tickRun{p.Rule, &p.engine, at, 1, &d}).compute()
	for _, remark := range d.Alerts {
		p.out.Refusals = append(p.out.Refusals, remark.Text)
	}
	if d.Emit != nil && p.out.Key == "" {
		p.over, p.out.Reason = true, fmt.Sprintf("the rule creates no jobs: each tick publishes an event on %s", d.Emit.Subject)
	}
	for _, effect := range d.Effects {
		p.apply(effect, PreviewEvent{Subject: "a tick", At: at})
	}
}

// explainEnd explains why no job is pending, or no more is known.
func (p *tickPreview) explainEnd() {
	switch {
	case p.document.Handler != "" && p.job != nil:
		p.out.Reason = "the preview ends here: it does not call handler " + p.document.Handler + ""
	case p.out.Key == "" && p.out.Reason == "":
		p.out.Reason = "the schedule does not tick any more"
	}
}

// nextTicks returns the next ticks after the first event, with the slots of their steps. A step that cannot be computed without
// its job is left out.
func (p *tickPreview) nextTicks() []PreviewTick {
	all := []PreviewTick{}
	tick, ok := p.ticking.schedule.Next(p.from)
	for ; ok && len(all) < ticksShown; tick, ok = p.ticking.schedule.Next(tick) {
		t := PreviewTick{At: tick}
		if emit := p.document.Trigger.Emit; emit != nil {
			t.Emits = emit.Subject
		}
		if body, err := (tickEvent{Tick: tick}).json(); err == nil {
			line, _ := p.timeline(contextOf(futurejobs.Job{Ref: futurejobs.Ref{Key: p.ticking.keysAt(tick)[0]}, Since: tick, Event: body}))
			for _, m := range line {
				if m.turn == 1 {
					t.Steps = append(t.Steps, PreviewStep{Step: m.name, At: p.slotAfter(tick, m.at)})
				}
			}
		}
		all = append(all, t)
	}
	return all
}
