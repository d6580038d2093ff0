package futurejobs

import (
	"fmt"

	"deadman/alerts"
)

// JobQuota bounds the number of pending jobs of all rules with a prefix, or the bytes of those jobs (Job.Size). It is
// safe for concurrent use.
type JobQuota interface {
	// Bytes reports whether the quota bounds bytes instead of jobs. Capacity for bytes is not reserved.
	Bytes() bool
	// Reserve reserves capacity for jobs that are about to begin, until Settle, and reports whether it was available.
	// A negative number announces jobs that are about to end, and frees no capacity yet.
	Reserve(jobs int64) bool
	// Room returns the remaining capacity in jobs or bytes; no job begins unless it is positive.
	Room() int64
	// Refusal returns the error for a refused job of a rule, with the limit and the remedy.
	Refusal(rule string) error
	// Settle frees the reserved capacity, and adds the committed changes: the growth of pending jobs, in jobs or
	// bytes, and the number of refused jobs.
	Settle(reserved, grown, refused int64)
}

// Quotas maps rules to quotas. Implementations are safe for concurrent use.
type Quotas interface {
	// OfJobs returns the quotas for the jobs of a rule, by the rule's name; nil: none.
	OfJobs(rule string) []JobQuota
	// Tenant returns the tenant of a rule, by its name; empty: none.
	Tenant(rule string) string
	// KeepAlert counts the bytes of an alert that is about to be stored. Beyond a quota it removes the event and the
	// state from the alert, and marks it.
	KeepAlert(a *alerts.Alert)
	// DropAlert reverts the count of an alert that was not stored.
	DropAlert(a *alerts.Alert)
}

// keepAlerts counts the alerts of a decision that is about to be stored. q may be nil.
func (d *Decision) keepAlerts(q Quotas) {
	for i := range d.Alerts {
		if q != nil {
			q.KeepAlert(&d.Alerts[i])
		}
	}
}

// dropAlerts reverts keepAlerts.
func (d *Decision) dropAlerts(q Quotas) {
	for i := range d.Alerts {
		if q != nil {
			q.DropAlert(&d.Alerts[i])
		}
	}
}

// QuotaUse is the use of one quota by a run of effects.
type QuotaUse struct {
	Quota   JobQuota
	Grown   int64 // jobs begun minus jobs ended, or their bytes
	Refused int64 // jobs refused by the quota
	held    int64 // reserved capacity; negative: announced ends
	room    int64 // capacity at the start of the run
	bytes   bool
}

// take reserves capacity for one more job. Jobs that the run ended free capacity, unless the quota is exceeded
// nevertheless. A quota of bytes with any capacity left accepts a job of any size.
func (u *QuotaUse) take() bool {
	if u.bytes {
		return u.Grown < u.room
	}
	if u.Grown < u.held {
		return u.Quota.Room()+u.held > u.Grown
	}
	more := u.Grown + 1 - u.held
	if !u.Quota.Reserve(more) {
		return false
	}
	u.held += more
	return true
}

// giveBack frees capacity beyond the run's use so far.
func (u *QuotaUse) giveBack() {
	if spare := u.held - max(u.Grown, 0); spare > 0 {
		u.Quota.Settle(spare, 0, 0)
		u.held -= spare
	}
}

// usage counts a run of effects toward quotas. Without quotas it does nothing.
type usage struct {
	quotas Quotas
	uses   []*QuotaUse
	rules  map[*Rule]*ruleUse // nil: no rule of the run has a quota
	last   *Rule
	lastOf *ruleUse
	share  share
}

// ruleUse has the quotas of a rule.
type ruleUse struct {
	uses   []*QuotaUse
	tenant string
}

// find returns the quotas of a rule; nil: none.
func (u *usage) find(r *Rule) *ruleUse {
	if u.quotas == nil {
		return nil
	}
	if r == u.last {
		return u.lastOf
	}
	found, met := u.rules[r]
	if !met {
		if quotas := u.quotas.OfJobs(r.Name); len(quotas) > 0 {
			found = &ruleUse{tenant: u.quotas.Tenant(r.Name)}
			for _, q := range quotas {
				found.uses = append(found.uses, u.use(q))
			}
			if u.rules == nil {
				u.rules = make(map[*Rule]*ruleUse)
			}
			u.rules[r] = found
		}
	}
	u.last, u.lastOf = r, found
	return found
}

// of returns the quota uses of a rule.
func (u *usage) of(r *Rule) []*QuotaUse {
	if found := u.find(r); found != nil {
		return found.uses
	}
	return nil
}

func (u *usage) use(q JobQuota) *QuotaUse {
	for _, known := range u.uses {
		if known.Quota == q {
			return known
		}
	}
	use := &QuotaUse{Quota: q, room: q.Room(), bytes: q.Bytes()}
	u.uses = append(u.uses, use)
	return use
}

// start counts a job that begins.
func (u *usage) start(r *Rule, s *foldedJob) {
	s.uses, s.counted = u.of(r), 0
	for _, use := range s.uses {
		use.add(1, 0)
	}
	s.count()
}

// end counts a job that ends.
func (u *usage) end(r *Rule, s *foldedJob) {
	for _, use := range u.of(r) {
		use.add(-1, -s.counted)
	}
	s.uses = nil
}

// meet records the size of a pending job.
func (u *usage) meet(r *Rule, s *foldedJob) {
	if s.uses = u.of(r); s.uses != nil {
		s.counted = int64(s.job.Size())
	}
}

func (u *QuotaUse) add(jobs, bytes int64) {
	if u.bytes {
		jobs = bytes
	}
	u.Grown += jobs
}

// refuse returns why no job of the rule may begin; nil: capacity for one is reserved.
func (u *usage) refuse(r *Rule) error {
	uses := u.of(r)
	for i, use := range uses {
		if use.take() {
			continue
		}
		for _, had := range uses[:i] {
			had.giveBack()
		}
		use.Refused++
		return use.Quota.Refusal(r.Name)
	}
	return nil
}

func (u *usage) sum() (all []QuotaUse) {
	for _, use := range u.uses {
		use.giveBack()
		if !use.bytes && use.Grown < 0 && use.Quota.Reserve(use.Grown) {
			use.held = use.Grown
		}
		all = append(all, *use)
	}
	return all
}

// Scarce returns a function that reports whether a rule may lack capacity for the jobs that the effects begin. The
// pending jobs of such a rule have to be read before the effects are played: a trigger of a pending job is not
// refused. nil: all rules have capacity.
func Scarce(quotas Quotas, effects []Effect) func(*Rule) bool {
	if quotas == nil {
		return nil
	}
	u, some, large := usage{quotas: quotas}, false, false
	for i := range effects {
		e := &effects[i]
		bytes := e.mostBytes()
		for _, use := range u.of(e.Rule) {
			use.add(1, bytes)
			some = some || use.Grown >= use.room
		}
		large = u.afford(*e, bytes) != nil || large
	}
	if !some && !large {
		return nil
	}
	return func(r *Rule) bool {
		if large && u.of(r) != nil {
			return true
		}
		for _, use := range u.of(r) {
			if use.Grown >= use.room {
				return true
			}
		}
		return false
	}
}

// mostBytes returns the maximum growth of a job by the effect, as far as it matters before other jobs of the run
// begin.
func (e *Effect) mostBytes() int64 {
	if start, is := e.Action.(Start); is {
		return int64(start.Job.Size())
	}
	if e.Event == nil {
		return 0
	}
	return int64(len(e.Event.Data))
}

// shareBytes is how many bytes of one event the rules of a tenant may write into jobs.
const shareBytes = 4 << 20

// share counts the bytes that the rules of tenants write of the current event. The effects of an event are
// consecutive.
type share struct {
	event *Event
	by    map[string]int // bytes by tenant
}

// afford counts bytes of the effect's event that are to be written into a job. If the tenant's rules would write too
// many together it returns an error.
func (u *usage) afford(e Effect, bytes int64) error {
	rule := u.find(e.Rule)
	if rule == nil || rule.tenant == "" || e.Event == nil {
		return nil
	}
	if u.share.event != e.Event {
		u.share.event = e.Event
		clear(u.share.by)
	}
	if u.share.by[rule.tenant]+int(bytes) > shareBytes {
		return fmt.Errorf("the rules %s* together write at most %d bytes of one event into jobs, and others of them have done so; "+
			"have fewer rules keep the event, or publish a smaller one; a retry of this dead letter is for this rule alone", rule.tenant, shareBytes)
	}
	if u.share.by == nil {
		u.share.by = make(map[string]int)
	}
	u.share.by[rule.tenant] += int(bytes)
	return nil
}
