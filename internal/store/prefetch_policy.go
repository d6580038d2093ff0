package store

import (
	"errors"
	"slices"
	"sync/atomic"

	futurejobs "deadman/future_jobs"
)

// errConcurrentCreate means that a job was there that we did not look up, or that somebody else created between
// our look and our write. It passes: the next try sees it.
var errConcurrentCreate = errors.New("somebody else created a job meanwhile")

// cautiousBatches is how many batches look up all their jobs after one had to be begun again.
const cautiousBatches = 16

// prefetchPolicy says which jobs a batch looks up before it is folded. It is safe for concurrent use.
type prefetchPolicy struct {
	wary   atomic.Int32      // batches that are to look up all their jobs
	quotas futurejobs.Quotas // nil: there are none
	room   letterRoom
}

// trim takes bodies that have no room out of a batch's dead letters. That of a letter that is tried again stays where it is.
func (c *prefetchPolicy) trim(b futurejobs.EffectBatch, letters []futurejobs.DeadLetter) []futurejobs.DeadLetter {
	if b.Letter != nil {
		return letters
	}
	tenantOf := func(string) string { return "" }
	if c.quotas != nil {
		tenantOf = c.quotas.Tenant
	}
	return c.room.trim(letters, tenantOf)
}

// boundBy sets the quotas of jobs. It is called before anything is applied.
func (c *prefetchPolicy) boundBy(q futurejobs.Quotas) { c.quotas = q }

// refsToRead are the jobs that have to be looked up before effects are folded. A wait that merely
// begins is not among them: most often there is none yet, and where there is one, the insert
// finds it, and the batch is applied again with all of its jobs looked up. So are those that
// follow, since events that come again come in numbers. Where a quota may lack room for a rule, all of the rule's are looked up.
func (c *prefetchPolicy) refsToRead(effects []futurejobs.Effect) []futurejobs.Ref {
	if c.wary.Load() > 0 {
		c.wary.Add(-1)
		return refs(effects)
	}
	asked := make(map[futurejobs.Ref]int, len(effects))
	for i := range effects {
		asked[effects[i].Ref]++
	}
	var uncertain []futurejobs.Ref
	scarce := futurejobs.Scarce(c.quotas, effects)
	for i := range effects {
		e := &effects[i]
		if start, begins := e.Action.(futurejobs.Start); !begins || start.Early || asked[e.Ref] > 1 || scarce != nil && scarce(e.Rule) {
			uncertain = append(uncertain, e.Ref)
		}
	}
	return inLockOrder(uncertain)
}

// overtaken reports whether a job did not begin for want of room that may be pending: there was room when it was decided which jobs to look
// up, and this one is not among them.
func overtaken(net futurejobs.FoldResult, look []futurejobs.Ref) bool {
	return slices.ContainsFunc(net.Unbegun, func(u futurejobs.Unbegun) bool {
		_, known := slices.BinarySearchFunc(look, u.Ref, compareRefs)
		return !known
	})
}

// allRefs are the jobs of effects of which one was there that was not looked up.
func (c *prefetchPolicy) allRefs(effects []futurejobs.Effect) []futurejobs.Ref {
	c.wary.Store(cautiousBatches)
	return refs(effects)
}
