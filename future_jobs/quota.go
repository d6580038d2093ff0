package futurejobs

import (
	"fmt"
)

// JobQuota bounds how many pending jobs the rules of a prefix have together, or how many bytes those jobs have (Job.Size). It is safe for
// concurrent use.
type JobQuota interface {
	// Bytes reports whether bytes are bounded, and not the number of jobs. Room for bytes is not reserved.
	Bytes() bool
	// Reserve takes room for some jobs that are about to begin, until Settle, and reports whether there was that much. A number below 0
	// announces that jobs are about to end, and makes no room yet.
	Reserve(jobs int64) bool
	// Room returns how many more jobs may begin, or how many more bytes they may have; no job begins where it is not above 0.
	Room() int64
	// Refusal is why a job of a rule does not begin, with the limit and the remedy.
	Refusal(rule string) error
	// Settle gives back the room that was reserved, and takes in what was committed: by how many jobs or bytes the pending jobs grew, and
	// how many jobs did not begin for want of room.
	Settle(reserved, grown, refused int64)
}

// Quotas says which quotas a rule counts toward. Implementations are safe for concurrent use.
type Quotas interface {
	// OfJobs returns the quotas that the jobs of a rule count toward, by the rule's name; nil: none.
	OfJobs(rule string) []JobQuota
	// Tenant returns whose a rule is, by its name; empty: nobody's.
	Tenant(rule string) string
}

// QuotaUse is what a run of effects comes to for one quota.
type QuotaUse struct {
	Quota   JobQuota
	Grown   int64 // jobs that began, less those that ended, or their bytes
	Refused int64 // jobs that did not begin for want of room
	held    int64 // room that is reserved; below 0: what was announced to end
	room    int64 // when the run began
	bytes   bool
}

// Use has the quotas take in what was committed.
func (n FoldResult) Use() {
	for _, u := range n.Quotas {
		u.Quota.Settle(u.held, u.Grown, u.Refused)
	}
}

// Release gives back the room for jobs that were not committed.
func (n FoldResult) Release() {
	for _, u := range n.Quotas {
		u.Quota.Settle(u.held, 0, 0)
	}
}

// take makes sure of room for one more job. What the run ended makes room, unless the quota is exceeded all the same. A quota of bytes
// that has room has it for a job of any size.
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

// giveBack gives back the room that is not needed for what the run comes to so far.
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
	rules  map[*Rule]*ruleUse // nil: no rule of the run counts toward any
	last   *Rule
	lastOf *ruleUse
	share  share
}

// ruleUse is what a rule counts toward.
type ruleUse struct {
	uses   []*QuotaUse
	tenant string
}

// find returns what a rule counts toward; nil: nothing.
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

// of returns the quotas that a rule counts toward.
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

// begin counts a job of a rule that begins, and end one that ends.
func (u *usage) begin(r *Rule, s *foldedJob) {
	s.uses, s.counted = u.of(r), 0
	for _, use := range s.uses {
		use.add(1, 0)
	}
	s.count()
}

func (u *usage) end(r *Rule, s *foldedJob) {
	for _, use := range u.of(r) {
		use.add(-1, -s.counted)
	}
	s.uses = nil
}

// meet takes note of the size that a pending job had.
func (u *usage) meet(r *Rule, s *foldedJob) {
	if s.uses = u.of(r); s.uses != nil {
		s.counted = int64(s.job.Size())
	}
}

// count counts by how much a job grew since that was last counted.
func (s *foldedJob) count() {
	if s.uses == nil {
		return
	}
	size := int64(s.job.Size())
	for _, use := range s.uses {
		use.add(0, size-s.counted)
	}
	s.counted = size
}

func (u *QuotaUse) add(jobs, bytes int64) {
	if u.bytes {
		jobs = bytes
	}
	u.Grown += jobs
}

// refuse returns why no job of the rule may begin; nil: there is room for one, which is reserved.
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

// Scarce returns whether a rule may lack room for what the effects begin. Then it has to be known which of its jobs are pending
// before the effects are played: a trigger of a pending job is not refused. nil: all have room.
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

// mostBytes is by how much the effect makes a job grow at most, as far as that counts before others of the run begin.
func (e *Effect) mostBytes() int64 {
	if start, is := e.Action.(Start); is {
		return int64(start.Job.Size())
	}
	if e.Event == nil {
		return 0
	}
	return int64(len(e.Event.Data))
}

// shareBytes is how many bytes the rules of a tenant may write into jobs for one event.
const shareBytes = 4 << 20

// share counts what the rules of tenants write of the event that is played. The effects of an event follow each other.
type share struct {
	event *Event
	by    map[string]int // bytes by tenant
}

// afford counts so many bytes of the event of an effect that are to be written into a job. Where the rules of the tenant would write too
// many together it returns why they are not written.
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
