package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/scheduler"
)

// storedClient is the database as the stored schedules of a node see it.
type storedClient struct{ databaseClient }

var (
	_ scheduler.StoredStore   = storedClient{}
	_ scheduler.StoredEmitter = brokerClient{}
)

// DueRuleShards implements scheduler.StoredStore.
func (d storedClient) DueRuleShards(ctx context.Context, of []futurejobs.RuleShard, now time.Time) ([]futurejobs.DueRuleShard, error) {
	return call(ctx, d.gate, database, "DueRuleShards", func(ctx context.Context) ([]futurejobs.DueRuleShard, error) {
		return d.store.DueRuleShards(ctx, of, now)
	})
}

// DueSchedules implements scheduler.StoredStore.
func (d storedClient) DueSchedules(ctx context.Context, of futurejobs.TickFence, now time.Time, limit int) ([]futurejobs.Schedule, error) {
	return call(ctx, d.gate, database, "DueSchedules", func(ctx context.Context) ([]futurejobs.Schedule, error) {
		return d.store.DueSchedules(ctx, of, now, limit)
	})
}

// DecideTicks implements scheduler.StoredStore.
func (d storedClient) DecideTicks(ctx context.Context, fence futurejobs.TickFence, decided []futurejobs.DecidedTick) ([]futurejobs.PlannedTick, error) {
	return call(ctx, d.gate, database, "DecideTicks "+decided[0].Schedule.ID, func(ctx context.Context) ([]futurejobs.PlannedTick, error) {
		end := d.ledger().begin()
		recorded, err := d.store.DecideTicks(ctx, fence, decided)
		end(err, func(l *ledger) { l.held(d.id(), fence, recorded) })
		return recorded, err
	})
}

// ClaimTicks implements scheduler.StoredStore.
func (d storedClient) ClaimTicks(ctx context.Context, fence futurejobs.TickFence, limit int) ([]futurejobs.PlannedTick, error) {
	return call(ctx, d.gate, database, "ClaimTicks", func(ctx context.Context) ([]futurejobs.PlannedTick, error) {
		end := d.ledger().begin()
		claimed, err := d.store.ClaimTicks(ctx, fence, limit)
		end(err, func(l *ledger) {
			if len(claimed) > 0 {
				l.count("planned tick claimed by another attempt")
			}
			l.held(d.id(), fence, claimed)
		})
		return claimed, err
	})
}

// MarkEmitted implements scheduler.StoredStore.
func (d storedClient) MarkEmitted(ctx context.Context, ticks []futurejobs.PlannedTick) error {
	return run(ctx, d.gate, database, "MarkEmitted "+ticks[0].ID, func(ctx context.Context) error {
		end := d.ledger().begin()
		err := d.store.MarkEmitted(ctx, ticks)
		end(err, func(l *ledger) { l.marksEmitted(d.id(), ticks) })
		return err
	})
}

// PutOffTicks implements scheduler.StoredStore. Only events that are posted are put off.
func (d storedClient) PutOffTicks(context.Context, []futurejobs.PlannedTick) error {
	return errors.New("no rule of the plan posts its events")
}

// storedTick identifies a tick of a stored schedule.
type storedTick struct {
	id string
	at time.Time
}

// report is an event of a stored schedule that the stream has.
type report struct {
	futurejobs.Emission
	storedAt time.Time
}

// held records that ticks belong to a node until the end of a hold: it has the leases, and no tick belongs to another node.
func (l *ledger) held(node string, fence futurejobs.TickFence, ticks []futurejobs.PlannedTick) {
	for _, of := range fence.Held {
		if !l.holds(node, of) {
			l.breach("%s decides or claims ticks without the lease of shard %d at epoch %d", node, of.Shard, of.Epoch)
		}
	}
	for _, t := range ticks {
		is := storedTick{t.ID, t.At}
		if until := l.holdings[is]; until.Sub(l.now) > earlyMost {
			l.breach("%s gets the tick of %s at %s, which belongs to a node until %s", node, t.ID, t.At.Sub(l.plan.begin), until.Sub(l.plan.begin))
		}
		if t.Outcome == futurejobs.TickPlanned {
			l.holdings[is] = l.now.Add(fence.HoldFor)
		}
	}
}

// marksEmitted records that ticks are marked as emitted: the stream has their events.
func (l *ledger) marksEmitted(node string, ticks []futurejobs.PlannedTick) {
	for _, t := range ticks {
		if !slices.ContainsFunc(l.reports, func(r report) bool { return r.Schedule == t.ID && r.At.Equal(t.At) }) {
			l.breach("%s records that the event of %s at %s is stored, and it is not", node, t.ID, t.At.Sub(l.plan.begin))
		}
		delete(l.holdings, storedTick{t.ID, t.At})
	}
}

// duplicatesFor is the duplicate window of the stream: shorter than that of any real one.
const duplicatesFor = time.Second

// PublishTicks implements scheduler.StoredEmitter, as package bus does: it searches the stream for events that may be stored, and
// publishes the others. While publications fail, they are stored in part, or without an acknowledgement.
func (c brokerClient) PublishTicks(ctx context.Context, all []futurejobs.Emission) (stored []bool, err error) {
	stored = make([]bool, len(all))
	if slices.ContainsFunc(all, func(e futurejobs.Emission) bool { return e.MayBeStored }) {
		found, err := call(ctx, c.gate, streams, "Search "+all[0].ID, func(context.Context) ([]bool, error) { return c.deployment.ledger.find(all), nil })
		if err != nil {
			return stored, err
		}
		copy(stored, found)
	}
	var left []futurejobs.Emission
	var places []int
	for i, e := range all {
		if !stored[i] {
			left, places = append(left, e), append(places, i)
		}
	}
	if len(left) == 0 {
		c.deployment.count("event of a stored schedule found in the stream")
		return stored, nil
	}
	answered, err := c.sendAll(ctx, left)
	for _, i := range places[:answered] {
		stored[i] = true
	}
	return stored, err
}

// sendAll publishes events of stored schedules, and returns how many of them are acknowledged, the first ones. If its node gives up,
// half of the publications arrive nevertheless.
func (c brokerClient) sendAll(ctx context.Context, all []futurejobs.Emission) (answered int, err error) {
	l, w := c.luck("Emit "+all[0].ID), c.deployment
	if err := c.enter(ctx, streams, l); err != nil {
		if l.share(7) < 0.5 && (ctx.Err() != nil || errors.Is(err, errDead)) {
			w.late.Go(func() {
				time.Sleep(l.between(0, transitMost))
				w.count("event of a stored schedule stored after its node gave it up")
				w.ledger.report(c.id(), all)
			})
		}
		return 0, fmt.Errorf("emit: %w", err)
	}
	through := len(all)
	_, broken := w.active(publications, c.node)
	if broken && l.share(4) < 0.5 {
		through = int(l.share(5) * float64(len(all)+1))
	}
	w.ledger.report(c.id(), all[:through])
	if err := c.leave(ctx, streams, l); err != nil {
		return 0, fmt.Errorf("emit: %w", err)
	}
	switch {
	case broken && l.share(6) < 0.5:
		return 0, errNoAnswer
	case through < len(all):
		return through, errors.New("the stream stores no message")
	}
	return through, nil
}

// find reports for each event whether the stream has it.
func (l *ledger) find(all []futurejobs.Emission) []bool {
	defer l.lock()()
	found := make([]bool, len(all))
	for i, e := range all {
		found[i] = e.MayBeStored && l.lastReport(e) >= 0
	}
	return found
}

// lastReport returns the index of the newest copy of an event; -1: the stream has none.
func (l *ledger) lastReport(e futurejobs.Emission) int {
	for i := len(l.reports) - 1; i >= 0; i-- {
		if l.reports[i].ID == e.ID && l.reports[i].Subject == e.Subject {
			return i
		}
	}
	return -1
}

// report stores events of stored schedules, unless the stream has them and refuses the repeat.
func (l *ledger) report(node string, all []futurejobs.Emission) {
	defer l.lock()()
	for _, e := range all {
		if i := l.lastReport(e); i >= 0 && time.Since(l.reports[i].storedAt) < duplicatesFor {
			continue
		}
		l.record(node, "emits %s: %s", e.ID, e.Data)
		l.reports = append(l.reports, report{e, time.Now()})
	}
}
