package access

import (
	"sync"

	futurejobs "deadman/future_jobs"
)

// jobCount is how many jobs of a prefix are pending, and for how many there is room reserved. The meters of a prefix, one after the other, share
// it: what a transaction reserves it gives back also when the quota was set meanwhile. It is safe for concurrent use.
type jobCount struct {
	mu      sync.Mutex
	pending int64 // that were committed
	held    int64 // that may begin
	ending  int64 // that may end; not above 0
	counted bool  // by the database, once

	begun, ended int64 // that were committed since the database began to count; ended is not above 0
}

// Load returns how many jobs are pending.
func (c *jobCount) Load() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending
}

// left returns for how many jobs there is room, of so many.
func (c *jobCount) left(most int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return most - c.pending - c.held
}

// reserve takes room for some jobs, of so many, and reports whether there was that much.
func (c *jobCount) reserve(jobs, most int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case jobs < 0:
		c.ending += jobs
	case most-c.pending-c.held < jobs:
		return false
	default:
		c.held += jobs
	}
	return true
}

// settle gives back room that was reserved, and counts what was committed.
func (c *jobCount) settle(reserved, grown int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= max(reserved, 0)
	c.ending -= min(reserved, 0)
	c.pending += grown
	if grown > 0 {
		c.begun += grown
	} else {
		c.ended += grown
	}
}

// wasCounted reports whether the database has counted the jobs once.
func (c *jobCount) wasCounted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counted
}

// count says that the database begins to count.
func (c *jobCount) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun, c.ended = 0, 0
}

// learn takes in what the database has counted since count. What was committed meanwhile may be in it or not, and so may what is not settled
// yet. A number that the node knows by itself stays where it is possible: alone, a node counts exactly.
func (c *jobCount) learn(counted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := counted+c.ended-c.held, counted+c.begun-c.ending
	if !c.counted {
		least, c.counted = most, true
	}
	c.pending = min(max(c.pending, least), most)
}

// jobs is the quota of jobs that a meter counts, and jobBytes that of their bytes.
type (
	jobs struct {
		*meter
		of *Quotas
	}
	jobBytes jobs
)

// OfJobs implements futurejobs.Quotas.
func (q *Quotas) OfJobs(rule string) (all []futurejobs.JobQuota) {
	s := q.current.Load()
	for _, m := range s.of(LimitJobs, rule) {
		all = append(all, jobs{m, q})
	}
	for _, m := range s.of(LimitJobBytes, rule) {
		all = append(all, jobBytes{m, q})
	}
	return all
}

// Bytes implements futurejobs.JobQuota.
func (j jobs) Bytes() bool     { return false }
func (j jobBytes) Bytes() bool { return true }

// Reserve implements futurejobs.JobQuota.
func (j jobs) Reserve(n int64) bool { return j.jobs.reserve(n, j.most[LimitJobs]) }

// Reserve implements futurejobs.JobQuota: of bytes nothing is reserved.
func (j jobBytes) Reserve(int64) bool { return j.Room() > 0 }

// Room implements futurejobs.JobQuota.
func (j jobs) Room() int64     { return j.jobs.left(j.most[LimitJobs]) }
func (j jobBytes) Room() int64 { return j.most[LimitJobBytes] - j.used[atJobBytes].Load() }

// Refusal implements futurejobs.JobQuota: the dead letters of the rule have it, which the rule's tenant reads.
func (j jobs) Refusal(rule string) error {
	return j.ExceededTo(j.of.Tenant(rule), LimitJobs, j.most[LimitJobs])
}

// Refusal implements futurejobs.JobQuota.
func (j jobBytes) Refusal(rule string) error {
	return j.ExceededTo(j.of.Tenant(rule), LimitJobBytes, j.most[LimitJobBytes])
}

// Settle implements futurejobs.JobQuota.
func (j jobs) Settle(reserved, grown, refused int64) {
	j.jobs.settle(reserved, grown)
	j.refused[atJobs].Add(refused)
}

// Settle implements futurejobs.JobQuota.
func (j jobBytes) Settle(_, grown, refused int64) {
	j.used[atJobBytes].Add(grown)
	j.refused[atJobBytes].Add(refused)
}
