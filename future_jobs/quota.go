package futurejobs

// JobQuota bounds how many pending jobs the rules of a prefix have together. It is safe for concurrent use.
type JobQuota interface {
	// Reserve takes room for some jobs that are about to begin, until Settle, and reports whether there was that much. A number below 0
	// announces that jobs are about to end, and makes no room yet.
	Reserve(jobs int64) bool
	// Room returns how many more jobs may begin; none where it is not above 0.
	Room() int64
	// Refusal is why a job of a rule does not begin, with the limit and the remedy.
	Refusal(rule string) error
	// Settle gives back the room that was reserved, and takes in what was committed: by how many the pending jobs grew, and how many
	// did not begin for want of room.
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
	Grown   int64 // jobs that began, less those that ended
	Refused int64 // jobs that did not begin for want of room
	held    int64 // room that is reserved; below 0: what was announced to end
	room    int64 // when the run began
}

// Use has the quotas take in what was committed.
func (n Net) Use() {
	for _, u := range n.Quotas {
		u.Quota.Settle(u.held, u.Grown, u.Refused)
	}
}

// Release gives back the room for jobs that were not committed.
func (n Net) Release() {
	for _, u := range n.Quotas {
		u.Quota.Settle(u.held, 0, 0)
	}
}

// take makes sure of room for one more job. What the run ended makes room, unless the quota is exceeded all the same.
func (u *QuotaUse) take() bool {
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
	rules  map[*Rule][]*QuotaUse // nil: no rule of the run counts toward any
	last   *Rule
	lastOf []*QuotaUse
}

// of returns what a rule counts toward.
func (u *usage) of(r *Rule) []*QuotaUse {
	if u.quotas == nil {
		return nil
	}
	if r == u.last {
		return u.lastOf
	}
	uses, met := u.rules[r]
	if !met {
		for _, q := range u.quotas.OfJobs(r.Name) {
			uses = append(uses, u.use(q))
		}
		if len(uses) > 0 {
			if u.rules == nil {
				u.rules = make(map[*Rule][]*QuotaUse)
			}
			u.rules[r] = uses
		}
	}
	u.last, u.lastOf = r, uses
	return uses
}

func (u *usage) use(q JobQuota) *QuotaUse {
	for _, known := range u.uses {
		if known.Quota == q {
			return known
		}
	}
	use := &QuotaUse{Quota: q, room: q.Room()}
	u.uses = append(u.uses, use)
	return use
}

// grow counts jobs of a rule that begin, or end where n is below 0.
func (u *usage) grow(r *Rule, n int64) {
	for _, use := range u.of(r) {
		use.Grown += n
	}
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
		if use.Grown < 0 && use.Quota.Reserve(use.Grown) {
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
	u, some := usage{quotas: quotas}, false
	for i := range effects {
		for _, use := range u.of(effects[i].Rule) {
			use.Grown++
			some = some || use.Grown >= use.room
		}
	}
	if !some {
		return nil
	}
	return func(r *Rule) bool {
		for _, use := range u.of(r) {
			if use.Grown >= use.room {
				return true
			}
		}
		return false
	}
}
