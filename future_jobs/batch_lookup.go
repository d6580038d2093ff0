package futurejobs

import (
	"context"
	"runtime/debug"
	"time"

	"deadman/checks"
	"deadman/internal/failpoints"
)

// How many jobs of a version a source is asked about at once, and how long the first of them
// waits for others while there is more to read.
const (
	maxLookupBatch = 2000
	lookupLinger   = 100 * time.Millisecond
)

// lookupBatch is jobs of one version on their way to a source. It has a place in the line there.
type lookupBatch struct {
	jobs  []*task
	bytes int // of their bodies
	begun time.Time
}

// reserveLookup sees to it that jobs of a version can be gathered; false: the line before their source
// is full, and no more of the version is read in this pass.
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

// addToLookup puts a job among those that its source is asked about, and asks about a batch that is
// full.
func (p *sweepRun) addToLookup(v *task) {
	made := VersionRef{v.rule.ID, v.rule.Version}
	g := p.finds[made]
	g.jobs, g.bytes = append(g.jobs, v), g.bytes+v.Job.Size()
	if len(g.jobs) == maxLookupBatch || g.bytes >= settleBytes {
		p.flushLookup(made)
	}
}

// flushLookup has the source asked about what was gathered of a version.
func (p *sweepRun) flushLookup(made VersionRef) {
	g := p.finds[made]
	delete(p.finds, made)
	p.search(g.jobs)
}

// flushOldLookups sends what has waited by now; all there is where now is the zero time.
func (p *sweepRun) flushOldLookups(now time.Time) {
	for made, g := range p.finds {
		if now.IsZero() || now.Sub(g.begun) > lookupLinger {
			p.flushLookup(made)
		}
	}
}

// lookUp asks a source about jobs of one version, and their handler about each. Where ctx ends
// first, nothing is decided: a node that stops waits for no source, since to look up has no
// effects, and the next holder of the shard does so again.
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

// lookUp asks a source; a panic is an error of these checks and of no other.
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
