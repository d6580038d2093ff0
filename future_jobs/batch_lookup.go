package futurejobs

import (
	"context"
	"runtime/debug"
	"time"

	"deadman/checks"
	"deadman/internal/failpoints"
)

// Size of a lookup batch of one version, and how long its first job waits for others while more is read.
const (
	maxLookupBatch = 2000
	lookupLinger   = 100 * time.Millisecond
)

// lookupBatch is a batch of jobs of one version for a lookup. It has a place in the source's queue.
type lookupBatch struct {
	jobs  []*task
	bytes int // of the bodies
	begun time.Time
}

// reserveLookup makes sure that a version has an open lookup batch. It returns false if the queue of the source is
// full; no more jobs of the version are read in this sweep then.
func (s *Sweeper) reserveLookup(p *sweepRun, rule *Rule, now time.Time) bool {
	made := VersionRef{rule.ID, rule.Version}
	if p.finds[made] != nil {
		return true
	}
	if !rule.Finder.Enter() {
		s.crowded.Store(true)
		p.horizons[made] = horizon{isBusy: true}
		return false
	}
	p.finds[made] = &lookupBatch{begun: now}
	return true
}

// addToLookup adds a job to the lookup batch of its version, and sends a full batch.
func (p *sweepRun) addToLookup(v *task) {
	made := VersionRef{v.rule.ID, v.rule.Version}
	g := p.finds[made]
	g.jobs, g.bytes = append(g.jobs, v), g.bytes+v.Job.Size()
	if len(g.jobs) == maxLookupBatch || g.bytes >= settleBytes {
		p.flushLookup(made)
	}
}

// flushLookup sends the lookup batch of a version.
func (p *sweepRun) flushLookup(made VersionRef) {
	g := p.finds[made]
	delete(p.finds, made)
	p.search(g.jobs)
}

// flushOldLookups sends the batches older than lookupLinger, or all batches if now is zero.
func (p *sweepRun) flushOldLookups(now time.Time) {
	for made, g := range p.finds {
		if now.IsZero() || now.Sub(g.begun) > lookupLinger {
			p.flushLookup(made)
		}
	}
}

// lookUp does the lookup for jobs of one version, and calls their handler for each. If ctx ends first, nothing is
// decided: a stopping node does not wait for sources, since lookups have no side effects, and the next holder of the
// shard repeats them.
func (s *Sweeper) lookUp(ctx context.Context, batch []*task, decided chan<- []*task) {
	rule, now := batch[0].rule, s.clock.Now()
	questions := make([]checks.Check, len(batch))
	for i, v := range batch {
		questions[i] = v.question(now)
	}
	findings := lookUp(ctx, rule.Finder, questions)
	failpoints.Point("find.found")
	if ctx.Err() != nil {
		for _, v := range batch {
			v.shard.finish(v.Job.ID, v.slot)
		}
		return
	}
	s.outages.noteFindings(rule, findings, s.clock.Now())
	for i, found := range findings {
		v, c := batch[i], questions[i]
		v.Job.Last.StartedAt = now
		var answer checks.Answer
		err := found.Err
		if err == nil {
			c.Asked, c.Found = true, found.Value
			answer, err = callHandler(ctx, rule.Handler, c)
		}
		s.decideTask(v, answer, err)
	}
	decided <- batch
	s.capacityFreed()
}

// lookUp does a lookup. A panic becomes an error of these checks alone.
func lookUp(ctx context.Context, f checks.Finder, questions []checks.Check) (found []checks.Finding) {
	defer func() {
		if p := recover(); p != nil {
			found = make([]checks.Finding, len(questions))
			for i := range found {
				found[i].Err = panicError{p, debug.Stack()}
			}
		}
	}()
	return f.Find(ctx, questions)
}
