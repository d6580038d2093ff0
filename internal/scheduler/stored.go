package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/failpoints"
	"deadman/internal/periodic"
)

// StoredReader provides the rules with stored schedules. Implementations are safe for concurrent use.
type StoredReader interface {
	// StoredRules returns the rules with stored schedules, and the revision of their rule set.
	StoredRules() (revision int64, all []futurejobs.StoredRule)
	// Refresh reloads the rules if they changed.
	Refresh(ctx context.Context) error
}

// StoredStore keeps stored schedules and their ticks. Implementations are safe for concurrent use.
type StoredStore interface {
	// DueRuleShards returns the rules and shards with a due schedule, or with a planned tick without an event in transit.
	// They are in the order of their rules.
	DueRuleShards(ctx context.Context, of []futurejobs.RuleShard, now time.Time) ([]futurejobs.DueRuleShard, error)
	// DueSchedules returns schedules that are due by now, up to limit of each shard of a fence.
	DueSchedules(ctx context.Context, of futurejobs.TickFence, now time.Time, limit int) ([]futurejobs.Schedule, error)
	// DecideTicks records the ticks of schedules that are as they were read. The planned ones belong to the caller for
	// the HoldFor of the fence.
	DecideTicks(ctx context.Context, fence futurejobs.TickFence, decided []futurejobs.DecidedTick) ([]futurejobs.PlannedTick, error)
	// ClaimTicks returns up to limit planned ticks that belong to no node. They belong to the caller for the
	// HoldFor of the fence.
	ClaimTicks(ctx context.Context, fence futurejobs.TickFence, limit int) ([]futurejobs.PlannedTick, error)
	// MarkEmitted records that a stream has the events of planned ticks, or that a webhook accepted them.
	MarkEmitted(ctx context.Context, ticks []futurejobs.PlannedTick) error
	// PutOffTicks records failed attempts to post events.
	PutOffTicks(ctx context.Context, ticks []futurejobs.PlannedTick) error
}

// StoredEmitter publishes the events of stored schedules.
type StoredEmitter interface {
	// PublishTicks publishes events on one subject, and reports for each whether a stream has it. An event that may be stored
	// is searched for first. An error is about events that are not, or not known to be, stored.
	PublishTicks(ctx context.Context, all []futurejobs.Emission) (stored []bool, err error)
}

// StoredPoster posts the events of stored schedules.
type StoredPoster interface {
	// PostTicks posts events to a channel, all at the same time. It returns the error of each; nil: the channel accepted it.
	PostTicks(ctx context.Context, channel string, all []futurejobs.Emission) []error
}

// The sizes and times of a Stored.
const (
	storedPosts     = 64   // events of one rule that a unit posts at the same time
	storedBatch     = 1000 // ticks of one transaction and one publication
	storedUnits     = 8    // units at the same time
	storedShards    = 4    // of a unit: each transaction costs a commit, and large rules need several at the same time
	storedBackoff   = time.Second
	storedMaxPause  = 30 * time.Second
	storedMarkLimit = 5 * time.Second // to record published events on shutdown
)

// Stored decides the ticks of stored schedules in the shards of this node, and publishes their events.
//
//  1. A tick is recorded as planned in the transaction that moves its schedule to the next tick.
//  2. Its event is published or posted while the record keeps changes of its schedule and rule waiting.
//  3. The record becomes emitted. A node that finds a planned tick that belongs to no node publishes its event again,
//     unless the stream has it.
type Stored struct {
	Catalog  StoredReader
	Store    StoredStore
	Emitter  StoredEmitter
	Poster   StoredPoster
	Held     func() []futurejobs.HeldShard // the shards of this node
	Now      func() time.Time              // the database's time, or slightly before it; zero: not known yet
	Announce func(ctx context.Context, r alerts.SystemAlert) error
	Observer Observer
	Loads    *futurejobs.LoadCounter // counts ticks for the load of past slots; nil: they are not counted
	Log      *slog.Logger
	Allow    func(rule string) Allowance            // nil, or the Allowance is: no quota bounds the rule
	Jitter   func(most time.Duration) time.Duration // of pauses after failures; nil: random

	once    sync.Once
	wake    chan struct{}
	status  *periodic.Status
	failing atomic.Pointer[[]string] // the names of failing rules after the last round, sorted

	// Of the goroutine of Run:
	pauses pauses
	ranAt  time.Time // the last round, by the database's time; zero: its time is not known
}

func (s *Stored) init() {
	s.once.Do(func() {
		s.wake = make(chan struct{}, 1)
		s.status = periodic.NewStatus(s.Log, slog.LevelWarn, "stored schedules")
	})
}

// Wake signals that schedules, shards or rules changed. It is a hint; ticks are also found without it.
func (s *Stored) Wake() {
	s.init()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Err returns the reason why ticks of stored schedules cannot be decided or published at the moment, or nil.
func (s *Stored) Err() error {
	s.init()
	return s.status.Err()
}

// Failing returns the names of the rules with ticks of stored schedules that cannot be decided or emitted at the moment, sorted.
func (s *Stored) Failing() []string {
	if names := s.failing.Load(); names != nil {
		return *names
	}
	return nil
}

// Run decides and publishes ticks until ctx ends. It retries failures indefinitely; Err returns them.
func (s *Stored) Run(ctx context.Context) error {
	s.init()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.wake:
		}
		err := s.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.status.Set(ctx, err)
		timer.Reset(s.untilNextSecond())
	}
}

// untilNextSecond returns the pause until the first second of the database after the last round: ticks are whole seconds, and
// a round that began just before a second has not found its ticks.
func (s *Stored) untilNextSecond() time.Duration {
	if s.ranAt.IsZero() {
		return time.Second
	}
	return min(max(s.ranAt.Truncate(time.Second).Add(time.Second).Sub(s.Now()), 0), time.Second)
}

// round decides the due ticks of all rules and shards, and publishes the planned ones.
func (s *Stored) round(ctx context.Context) error {
	now := s.Now()
	s.ranAt = now
	revision, all := s.Catalog.StoredRules()
	held := s.Held()
	if now.IsZero() || len(all) == 0 || len(held) == 0 {
		s.failing.Store(nil) // other nodes have the ticks, or none is left
		return nil
	}
	units, err := s.units(ctx, now, revision, all, held)
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	rand.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] }) // they may share a quota
	turns, results := make(chan struct{}, storedUnits), make([]error, len(units))
	for i, u := range units {
		turns <- struct{}{}
		working.Go(func() {
			defer func() { <-turns }()
			results[i] = u.run(ctx)
		})
	}
	working.Wait()
	of, waits, isOutdated := roundResults{make(map[int32]error), make(map[int32]bool)}, make(map[int32]time.Duration), false
	for i, u := range units {
		var wait quotaWait
		switch err := results[i]; {
		case err == nil:
			of.succeeded[u.fence.RuleID] = true
		case errors.As(err, &wait):
			waits[u.fence.RuleID] = max(waits[u.fence.RuleID], wait.span)
		case errors.Is(err, futurejobs.ErrRulesChanged):
			isOutdated = true
		case !errors.Is(err, futurejobs.ErrNotHeld): // a lost shard is another node's
			of.failed[u.fence.RuleID] = errors.Join(of.failed[u.fence.RuleID], err)
		}
	}
	s.pauses, err = s.pauses.conclude(now, all, of, s.Jitter)
	s.pauses.waitForQuotas(now, waits)
	failing := s.pauses.failing(all)
	s.failing.Store(&failing)
	if isOutdated { // changed rules wake the next round; while a change waits, it comes in a second
		err = errors.Join(err, s.Catalog.Refresh(ctx))
	}
	return err
}

// units returns the work of a round: each rule with due ticks, in some of its shards.
func (s *Stored) units(ctx context.Context, now time.Time, revision int64, all []futurejobs.StoredRule, held []futurejobs.HeldShard) (units []unit, err error) {
	rules, shards := make(map[int32]futurejobs.StoredRule), make(map[int16]futurejobs.HeldShard)
	var of []futurejobs.RuleShard
	for _, rule := range all {
		if s.pauses.has(rule.RuleID(), now) {
			continue
		}
		rules[rule.RuleID()] = rule
		for _, shard := range held {
			shards[shard.Shard] = shard
			of = append(of, futurejobs.RuleShard{RuleID: rule.RuleID(), Shard: shard.Shard})
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	due, err := s.Store.DueRuleShards(ctx, of, now)
	if err != nil {
		return nil, err
	}
	for _, d := range due {
		last := len(units) - 1
		if last < 0 || units[last].fence.RuleID != d.RuleID || len(units[last].fence.Held) == storedShards {
			units = append(units, newUnit(s, rules[d.RuleID], revision, now))
			last++
		}
		u := &units[last]
		u.fence.Held, u.isPlanned = append(u.fence.Held, shards[d.Shard]), u.isPlanned || d.IsPlanned
	}
	return units, nil
}

// unit is a rule in some shards, in a round.
type unit struct {
	*Stored
	rule      futurejobs.StoredRule
	fence     futurejobs.TickFence
	now       time.Time
	isPlanned bool                // planned ticks belong to no node
	webhook   *futurejobs.Webhook // nil: the events go to a stream
	batch     int                 // most ticks of one transaction and one publication
}

// newUnit returns a unit without shards.
func newUnit(s *Stored, rule futurejobs.StoredRule, revision int64, now time.Time) unit {
	u := unit{Stored: s, rule: rule, now: now, webhook: rule.Webhook(), batch: storedBatch}
	u.fence = futurejobs.TickFence{RuleID: rule.RuleID(), Revision: revision, HoldFor: futurejobs.HoldTickFor, IsInOrder: rule.IsInOrder()}
	if u.webhook != nil {
		u.batch, u.fence.HoldFor = storedPosts, futurejobs.HoldPostFor
	}
	return u
}

// hold returns the context of work on planned ticks. It ends before changes of the rule continue.
func (u unit) hold(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, u.fence.HoldFor*4/5)
}

// run publishes the planned ticks that belong to no node, and decides and publishes the due ones, until none is left.
func (u unit) run(ctx context.Context) error {
	for more := u.isPlanned; more; {
		n, err := u.claim(ctx)
		if err != nil {
			return u.wrap(err)
		}
		more = n == u.batch
	}
	for limit := u.batch / len(u.fence.Held); ; {
		due, err := u.Store.DueSchedules(ctx, u.fence, u.now, limit)
		if err != nil {
			return u.wrap(err)
		}
		if len(due) == 0 {
			return nil
		}
		n, err := u.decide(ctx, due)
		if err != nil {
			return u.wrap(err)
		}
		if len(due) < limit || n == 0 { // 0: all of them changed meanwhile
			return nil
		}
	}
}

func (u unit) wrap(err error) error {
	return fmt.Errorf("rule %s: %w", u.rule.Name(), err)
}

// claim publishes the next planned ticks that belong to no node, and returns their number.
func (u unit) claim(ctx context.Context) (int, error) {
	held, cancel := u.hold(ctx)
	defer cancel()
	claimed, err := u.Store.ClaimTicks(held, u.fence, u.batch)
	if err != nil {
		return 0, err
	}
	return len(claimed), u.publish(ctx, held, claimed)
}

// decide decides the ticks of due schedules, and publishes the planned ones. It returns the number of recorded ticks.
func (u unit) decide(ctx context.Context, due []futurejobs.Schedule) (int, error) {
	decided := make([]futurejobs.DecidedTick, len(due))
	for i, s := range due {
		decided[i] = u.rule.Decide(s, u.now)
	}
	decided, wait, err := u.admit(decided)
	if err != nil {
		return 0, err
	}
	if len(decided) == 0 && wait > 0 {
		return 0, quotaWait{wait}
	}
	if remark, ok := u.rule.Remark(decided); ok {
		if err := u.Announce(ctx, remark); err != nil {
			return 0, err
		}
	}
	held, cancel := u.hold(ctx)
	defer cancel()
	recorded, err := u.Store.DecideTicks(held, u.fence, decided)
	if err != nil {
		return 0, err
	}
	failpoints.Point("stored.decided")
	planned := recorded[:0:0]
	counts, missed := make(map[futurejobs.TickOutcome]int), 0
	for _, t := range recorded {
		missed += t.Missed
		if t.Outcome == futurejobs.TickPlanned {
			planned = append(planned, t)
			continue
		}
		counts[t.Outcome]++
		u.Loads.Ticked(t.RuleID, t.At, t.Missed, 0)
	}
	for outcome, n := range counts {
		u.Observer.Ticked(u.rule.Name(), outcome, n)
	}
	if missed > 0 {
		u.Observer.Ticked(u.rule.Name(), futurejobs.TickMissed, missed)
	}
	if err := u.publish(ctx, held, planned); err != nil || wait == 0 {
		return len(recorded), err
	}
	return len(recorded), quotaWait{wait}
}

// publish publishes the events of planned ticks until held ends, and records those that a stream has. The others stay
// planned.
func (u unit) publish(ctx, held context.Context, planned []futurejobs.PlannedTick) error {
	if len(planned) == 0 {
		return nil
	}
	events := make([]futurejobs.Emission, len(planned))
	for i, t := range planned {
		var err error
		if events[i], err = u.rule.Emission(t); err != nil {
			return err
		}
	}
	if u.webhook != nil {
		return u.post(ctx, held, planned, events)
	}
	stored, err := u.Emitter.PublishTicks(held, events)
	failpoints.Point("stored.published")
	emitted := planned[:0:0]
	for i, t := range planned {
		if stored[i] {
			emitted = append(emitted, t)
		}
	}
	return errors.Join(err, u.markEmitted(ctx, emitted))
}

// markEmitted records and counts ticks whose events were accepted, also on shutdown.
func (u unit) markEmitted(ctx context.Context, emitted []futurejobs.PlannedTick) error {
	if len(emitted) == 0 {
		return nil
	}
	marking, cancel := context.WithTimeout(context.WithoutCancel(ctx), storedMarkLimit)
	defer cancel()
	if err := u.Store.MarkEmitted(marking, emitted); err != nil {
		return err
	}
	u.Observer.Ticked(u.rule.Name(), futurejobs.TickEmitted, len(emitted))
	now := u.Now()
	for _, t := range emitted {
		u.Loads.Ticked(t.RuleID, t.At, t.Missed, now.Sub(t.At))
	}
	return nil
}
