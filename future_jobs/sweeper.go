package futurejobs

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"deadman/alerts"
	"deadman/checks"
)

// How much is read and handed on at a time.
const (
	pageMost  = 4000 // jobs a read returns, over all shards
	pageLeast = 250  // jobs a read returns of one shard, at the least
	chunkMost = 250  // jobs one checker works on at a time
	settlers  = 2
)

// longest is how long the sweep rests where no rule has a slot earlier.
const longest = time.Minute

// How soon a sweep follows one that had to leave jobs behind: soon at first, then less and
// less.
const (
	again     = 50 * time.Millisecond
	againMost = time.Second
)

// syncEvery is how long the clock goes on without asking the database.
const syncEvery = 5 * time.Second

// Observer is told what was decided. Implementations are safe for concurrent use.
type Observer interface {
	// Checked counts one check; outcome is the job's, or "waiting", "undetermined", or
	// "dropped" where the job or its shard had changed meanwhile.
	Checked(rule, outcome string, took time.Duration)
	// Alerted is told of an alert that was written.
	Alerted(a alerts.Alert)
}

// Sweeper checks every job that is due in the shards that this node holds.
type Sweeper struct {
	queue Queue
	book  Book
	owner *Owner
	clock *Clock
	log   *slog.Logger

	// Observer is told what was decided. Set before Run.
	Observer Observer

	wake    chan struct{}
	slow    *lanes
	lagging map[Edition]waitingFor // left out of the sweep; used by Run alone
	paused  bool                   // the clock is not to be trusted; used by Run alone
	behind  time.Duration          // the last wait for what was left behind; used by Run alone

	swept atomic.Pointer[reach] // by the last sweep; nil: there was none yet
	mu    sync.Mutex
	errs  map[string]error
}

// waitingFor is what jobs wait for: their rule's streams read through to a slot.
type waitingFor struct {
	streams []string
	slot    time.Time
}

// NewSweeper returns a sweeper that runs up to workers checks that wait for something at
// once; those that only compute are not counted.
func NewSweeper(q Queue, b Book, o *Owner, c *Clock, workers int, log *slog.Logger) *Sweeper {
	return &Sweeper{
		queue: q, book: b, owner: o, clock: c, log: log,
		Observer: silent{},
		wake:     make(chan struct{}, 1), slow: newLanes(workers),
		lagging: map[Edition]waitingFor{}, errs: map[string]error{},
	}
}

type silent struct{}

func (silent) Checked(string, string, time.Duration) {}
func (silent) Alerted(alerts.Alert)                  {}

// Wake makes the next sweep begin at once: a hint that a stream was read or shards came.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to wake
	}
}

// Run sweeps at every slot until ctx ends; then it settles what is in hand and returns.
// drain bounds that: handlers still running when it ends are cut off.
func (s *Sweeper) Run(ctx, drain context.Context) error {
	due := make(chan []verdict, 8)
	decided := make(chan []verdict, 8)

	var checkers, writers sync.WaitGroup
	for range settlers {
		writers.Go(func() { s.settle(drain, decided) })
	}
	for range max(2, runtime.GOMAXPROCS(0)) {
		checkers.Go(func() {
			for chunk := range due {
				s.check(drain, chunk, decided)
			}
		})
	}

	s.loop(ctx, due)
	close(due)
	checkers.Wait()
	s.slow.wait()
	close(decided)
	writers.Wait()
	return nil
}

// loop sweeps at each slot of any rule, and sooner when jobs were left behind.
func (s *Sweeper) loop(ctx context.Context, due chan<- []verdict) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.wake:
		}
		wait := s.round(ctx, due)
		if ctx.Err() != nil {
			return
		}
		timer.Reset(wait)
	}
}

// round looks at the clock, sweeps if it runs evenly, and says how long to wait for the
// next round.
func (s *Sweeper) round(ctx context.Context, due chan<- []verdict) time.Duration {
	if s.paused || s.clock.Stale(syncEvery) {
		err := s.clock.Sync(ctx)
		s.fail("clock", err)
		if s.paused = err != nil; s.paused {
			return jump
		}
	}
	left, err := s.sweep(ctx, due)
	s.fail("sweep", err)
	if !left.IsZero() || err != nil {
		s.behind = min(max(2*s.behind, again), againMost)
		return s.behind
	}
	s.behind = 0
	now := s.clock.Now()
	wait := longest
	if slot := s.book.NextSlot(now); !slot.IsZero() {
		wait = min(wait, slot.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// sweep reads all that is due in the held shards and hands it to the checkers. What has to
// wait for its streams or for a free lane is left: the oldest slot of it is returned, and
// the next sweep has to begin where this one did.
func (s *Sweeper) sweep(ctx context.Context, due chan<- []verdict) (left time.Time, err error) {
	now := s.clock.Now()
	shards := s.owner.Open()
	if len(shards) == 0 || now.IsZero() {
		s.swept.Store(nil) // a node that holds nothing is behind with nothing
		return left, nil
	}
	through, err := s.queue.ReadThrough(ctx)
	if err != nil {
		return left, err
	}
	maps.DeleteFunc(s.lagging, func(_ Edition, w waitingFor) bool { return w.over(through) })

	pass := pass{shards: make(map[int16]*Shard, len(shards)), through: through, due: due, out: map[Edition]error{}}
	for e, w := range s.lagging {
		left = older(left, w.slot)
		pass.out[e] = nil
	}
	query := DueQuery{Until: now, Limit: max(pageMost/len(shards), pageLeast)}
	for _, sh := range shards {
		pass.shards[sh.Shard] = sh
		query.Walks = append(query.Walks, sh.walk(now))
	}
	for len(query.Walks) > 0 {
		for _, sh := range shards {
			sh.beginRead()
		}
		query.Not = slices.Collect(maps.Keys(pass.out))
		jobs, err := s.queue.Due(ctx, query)
		if err != nil {
			return left, err
		}
		waits, err := s.handOn(ctx, pass, jobs)
		if err != nil {
			return left, err
		}
		left = older(left, waits)
		query.Walks = advance(query, jobs)
	}
	if left.IsZero() {
		for _, sh := range shards {
			sh.raise(now)
		}
	}
	s.swept.Store(&reach{through: now, left: left})
	return left, pass.err()
}

// older returns the older of two slots, where the zero time is none.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// reach is how far a sweep came.
type reach struct {
	through time.Time // it read what was due by then
	left    time.Time // the oldest slot that it had to leave; zero: none
}

// pass is one sweep over the held shards.
type pass struct {
	shards  map[int16]*Shard
	through map[string]time.Time // by stream
	due     chan<- []verdict
	out     map[Edition]error // whose jobs wait; an error says why their rule cannot be read
}

// err says which versions cannot be read, in one order, so that the same is said once.
func (p pass) err() error {
	var errs []error
	for _, err := range p.out {
		if err != nil {
			errs = append(errs, err)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// handOn hands the jobs of one read to the checkers, in chunks. It returns the oldest slot
// of those that could not go.
func (s *Sweeper) handOn(ctx context.Context, p pass, jobs []Job) (left time.Time, err error) {
	picked := s.clock.Now()
	var chunk []verdict
	for _, j := range jobs {
		shard := p.shards[j.Shard]
		if shard.flying(j.ID) {
			continue
		}
		v, ok := s.pick(ctx, j, p)
		if !ok {
			left = older(left, j.NextCheckAt)
			continue
		}
		shard.takeOff(j)
		v.shard, v.Job.Last = shard, Look{PickedAt: picked}
		if chunk = append(chunk, v); len(chunk) == chunkMost {
			if err := hand(ctx, p.due, chunk); err != nil {
				return left, err
			}
			chunk = make([]verdict, 0, chunkMost)
		}
	}
	return left, hand(ctx, p.due, chunk)
}

// pick finds out who is to look at a job; ok is false for one that has to wait, for its
// rule, its streams or a lane, and no more of its version is read in this pass. One that
// need not wait has its lane.
func (s *Sweeper) pick(ctx context.Context, j Job, p pass) (v verdict, ok bool) {
	made := Edition{j.RuleID, j.Version}
	if _, out := p.out[made]; out {
		return verdict{}, false
	}
	ruleSet := s.book.Revision()
	rule, err := s.book.Rule(ctx, j.RuleID, j.Version)
	if err != nil {
		p.out[made] = err
		return verdict{}, false
	}
	if w := (waitingFor{rule.Streams, j.NextCheckAt}); !w.over(p.through) {
		s.lagging[made], p.out[made] = w, nil
		return verdict{}, false
	}
	if !prompt(rule) && !s.slow.enter(rule.ID) {
		p.out[made] = nil
		return verdict{}, false
	}
	return verdict{rule: rule, ruleSet: ruleSet, Decision: Decision{Job: j}}, true
}

// prompt reports whether the rule's handler only computes.
func prompt(r *Rule) bool {
	_, is := r.Handler.(checks.Prompt)
	return is
}

// over reports whether the streams are read past the slot.
func (w waitingFor) over(through map[string]time.Time) bool {
	return !slices.ContainsFunc(w.streams, func(stream string) bool { return through[stream].Before(w.slot) })
}

// hand hands a chunk to the checkers, waiting while they are busy.
func hand(ctx context.Context, due chan<- []verdict, chunk []verdict) error {
	if len(chunk) == 0 {
		return nil
	}
	select {
	case due <- chunk:
		return nil
	case <-ctx.Done(): // the node stops; the rows stay due
		return ctx.Err()
	}
}

// advance moves each walk to its last job; a shard that gave less than the limit is done.
func advance(q DueQuery, jobs []Job) []Walk {
	counts := map[int16]int{}
	last := map[int16]Job{}
	for _, j := range jobs {
		counts[j.Shard]++
		last[j.Shard] = j
	}
	var walks []Walk
	for _, w := range q.Walks {
		if counts[w.Shard] == q.Limit {
			j := last[w.Shard]
			walks = append(walks, Walk{Shard: w.Shard, At: j.NextCheckAt, ID: j.ID})
		}
	}
	return walks
}

// check asks the handlers of a chunk. Those that only compute are asked in line and their
// verdicts go on together; the others go their own way.
func (s *Sweeper) check(ctx context.Context, chunk []verdict, decided chan<- []verdict) {
	ready := chunk[:0]
	for _, v := range chunk {
		now := s.clock.Now()
		v.Job.Last.StartedAt = now
		if prompt(v.rule) {
			answer, err := ask(ctx, v.rule.Handler, v.rule.question(v.Job, now))
			ready = append(ready, s.conclude(v, answer, err))
			continue
		}
		s.slow.run(v.rule.ID, v.Job, func() (returned <-chan struct{}) {
			answer, returned, err := askWithin(ctx, v.rule.Limits.Timeout, v.rule.Handler, v.rule.question(v.Job, now))
			if errors.Is(err, errAbandoned) {
				s.log.Warn("handler abandoned", "rule", v.rule.Name, "key", v.Job.Key, "timeout", v.rule.Limits.Timeout)
			}
			decided <- []verdict{s.conclude(v, answer, err)}
			return returned
		})
	}
	if len(ready) > 0 {
		decided <- ready
	}
}

// conclude decides on what a handler answered.
func (s *Sweeper) conclude(v verdict, answer checks.Answer, err error) verdict {
	now := s.clock.Now()
	look := v.Job.Last
	if err != nil {
		look.FailedAt = now
		if p := (panicked{}); errors.As(err, &p) {
			s.log.Error("handler panicked", "rule", v.rule.Name, "key", v.Job.Key, "panic", p.value, "stack", string(p.stack))
		}
	} else {
		look.CompletedAt = now
	}
	v.Decision = v.rule.decide(v.Job, look, answer, err, now)
	return v
}

// Err is what stands in the sweep's way.
func (s *Sweeper) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(slices.Collect(maps.Values(s.errs))...)
}

// Lag is how far the sweep is behind: the age of the oldest due slot that is not decided.
func (s *Sweeper) Lag() time.Duration {
	swept := s.swept.Load()
	if swept == nil {
		return 0
	}
	oldest := older(swept.left, s.book.NextSlot(swept.through))
	for _, sh := range s.owner.Open() {
		if slot, ok := sh.oldest(); ok {
			oldest = older(oldest, slot)
		}
	}
	if oldest.IsZero() {
		return 0
	}
	return max(s.clock.Now().Sub(oldest), 0) // the next slot may be yet to come
}

// Doing describes up to 20 checks that are running, as JSON.
func (s *Sweeper) Doing() string { return s.slow.doing() }
