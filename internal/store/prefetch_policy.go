package store

import (
	"errors"
	"slices"
	"sync/atomic"

	futurejobs "deadman/future_jobs"
)

// errConcurrentCreate means that a job existed that was not read, or that another node created it between the read and
// the write. It is transient: a retry reads the job.
var errConcurrentCreate = errors.New("another node created a job meanwhile")

// cautiousBatches is the number of batches that read all their jobs after one batch had to be restarted.
const cautiousBatches = 16

// prefetchPolicy selects the jobs that a batch reads before it is folded. It is safe for concurrent use.
type prefetchPolicy struct {
	readAllBatches atomic.Int32      // the number of batches that are to read all their jobs
	quotas         futurejobs.Quotas // nil: none
	room           letterRoom
}

// holdLetters returns the capacity for the dead letters of a batch; nil: unlimited, as for the retry of a dead letter,
// which is written already.
func (c *prefetchPolicy) holdLetters(b futurejobs.EffectBatch) *letterHold {
	if b.Letter != nil {
		return nil
	}
	h := &letterHold{room: &c.room, tenantOf: func(string) string { return "" }}
	if c.quotas != nil {
		h.tenantOf = c.quotas.Tenant
	}
	return h
}

// bounds returns the bounds of a batch with a capacity for dead letters; nil: unlimited.
func (c *prefetchPolicy) bounds(letters *letterHold) futurejobs.Bounds {
	if letters == nil {
		return futurejobs.Bounds{Quotas: c.quotas}
	}
	return futurejobs.Bounds{Quotas: c.quotas, Letters: letters}
}

// boundLetters sets the limits of dead letters. It must be called before any batch is applied.
func (c *prefetchPolicy) boundLetters(limits LetterLimits) { c.room.limits = limits }

// boundBy sets the quotas of jobs. It must be called before any batch is applied.
func (c *prefetchPolicy) boundBy(q futurejobs.Quotas) { c.quotas = q }

// refsToRead returns the jobs to read before effects are folded. A job that is only started is not read: most often it
// does not exist yet. If it does, the insert finds it, and the batch is applied again with all of its jobs read. The
// next batches then also read all their jobs, since redelivered events come in numbers. If a quota may be exhausted for
// a rule, all jobs of the rule are read.
func (c *prefetchPolicy) refsToRead(effects []futurejobs.Effect) []futurejobs.Ref {
	if c.readAllBatches.Load() > 0 {
		c.readAllBatches.Add(-1)
		return refs(effects)
	}
	counts := make(map[futurejobs.Ref]int, len(effects))
	for i := range effects {
		counts[effects[i].Ref]++
	}
	var uncertain []futurejobs.Ref
	scarce := futurejobs.Scarce(c.quotas, effects)
	for i := range effects {
		e := &effects[i]
		if start, isStart := e.Action.(futurejobs.Start); !isStart || start.Early || counts[e.Ref] > 1 || scarce != nil && scarce(e.Rule) {
			uncertain = append(uncertain, e.Ref)
		}
	}
	return inLockOrder(uncertain)
}

// overtaken reports whether a quota refused a job that may be pending: the quota had capacity at the time of
// refsToRead, and toRead does not have this job.
func overtaken(net futurejobs.FoldResult, toRead []futurejobs.Ref) bool {
	return slices.ContainsFunc(net.Unbegun, func(u futurejobs.Unbegun) bool {
		_, known := slices.BinarySearchFunc(toRead, u.Ref, compareRefs)
		return !known
	})
}

// allRefs returns all jobs of effects, after one of them existed but was not read.
func (c *prefetchPolicy) allRefs(effects []futurejobs.Effect) []futurejobs.Ref {
	c.readAllBatches.Store(cautiousBatches)
	return refs(effects)
}

// early returns the refs of a batch that early events matter to, each once. If quotas bound the jobs of a rule, these
// include the ends of its jobs and the retries of its dead letters: a job that was refused may end before it begins.
func (c *prefetchPolicy) early(b futurejobs.EffectBatch) []futurejobs.Ref {
	var all []futurejobs.Ref
	var last *futurejobs.Rule
	bound := false
	for _, e := range b.Effects {
		if c.quotas != nil && e.Event != nil && e.Rule != last {
			last, bound = e.Rule, len(c.quotas.OfJobs(e.Rule.Name)) > 0
		}
		if remembers(e) || bound && e.Rule == last && e.Event != nil && (b.Letter != nil || ends(e.Action)) {
			all = append(all, e.Ref)
		}
	}
	return inLockOrder(all)
}
