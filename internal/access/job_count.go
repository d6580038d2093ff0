package access

import (
	"sync"

	futurejobs "deadman/future_jobs"
)

// jobCount counts the pending and reserved jobs of a prefix. Successive meters of a prefix share it, so that a
// transaction can release its reservation even if the quota was changed meanwhile. It is safe for concurrent use.
type jobCount struct {
	mu      sync.Mutex
	pending int64 // committed
	held    int64 // reserved for creation
	ending  int64 // reserved for ends; not above 0
	counted bool  // counted by the database at least once

	begun, ended int64 // committed since the database began to count; ended is not above 0
}

// Load returns the number of pending jobs.
func (c *jobCount) Load() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending
}

// left returns the number of jobs that can still be created under the limit.
func (c *jobCount) left(limit int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return limit - c.pending - c.held
}

// reserve reserves capacity for jobs under the limit, and reports whether it sufficed.
func (c *jobCount) reserve(jobs, limit int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case jobs < 0:
		c.ending += jobs
	case limit-c.pending-c.held < jobs:
		return false
	default:
		c.held += jobs
	}
	return true
}

// settle releases reserved capacity, and counts the committed jobs.
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

// wasCounted reports whether the database has counted the jobs at least once.
func (c *jobCount) wasCounted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counted
}

// count marks the beginning of a count by the database.
func (c *jobCount) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun, c.ended = 0, 0
}

// learn applies the result of a database count begun with count. Jobs committed meanwhile, or not settled yet, may or
// may not be included. The node's own number is kept if it is possible: a single node counts exactly.
func (c *jobCount) learn(counted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := counted+c.ended-c.held, counted+c.begun-c.ending
	if !c.counted {
		least, c.counted = most, true
	}
	c.pending = min(max(c.pending, least), most)
}

// jobs is a meter's quota of jobs, and jobBytes that of their bytes.
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
func (j jobs) Reserve(n int64) bool { return j.jobs.reserve(n, j.limits[LimitJobs]) }

// Reserve implements futurejobs.JobQuota. Bytes are not reserved.
func (j jobBytes) Reserve(int64) bool { return j.Room() > 0 }

// Room implements futurejobs.JobQuota.
func (j jobs) Room() int64     { return j.jobs.left(j.limits[LimitJobs]) }
func (j jobBytes) Room() int64 { return j.limits[LimitJobBytes] - j.used[atJobBytes].Load() }

// Refusal implements futurejobs.JobQuota. The text is stored in dead letters of the rule, readable by the rule's
// tenant.
func (j jobs) Refusal(rule string) error {
	return j.ExceededTo(j.of.Tenant(rule), LimitJobs, j.limits[LimitJobs])
}

// Refusal implements futurejobs.JobQuota.
func (j jobBytes) Refusal(rule string) error {
	return j.ExceededTo(j.of.Tenant(rule), LimitJobBytes, j.limits[LimitJobBytes])
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
