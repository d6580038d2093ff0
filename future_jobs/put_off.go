package futurejobs

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// putOffFor is how long a version counts as put off after its last check that was.
const putOffFor = time.Minute

// maxPutOff bounds the number of stored versions.
const maxPutOff = 500

// PutOff is a version of a rule with due checks that wait because the allowance of its tenant is used up. They are not
// counted as checks, and their jobs stay as they are.
type PutOff struct {
	VersionRef
	Rule  string
	Since time.Time // when the first check was put off
}

// putOff stores the versions whose checks are put off.
type putOff struct {
	log *slog.Logger
	mu  sync.Mutex
	all map[VersionRef]*putOffVersion
}

type putOffVersion struct {
	PutOff
	last   time.Time // when the last check was put off
	slot   time.Time // of the oldest check that is put off now
	isHeld bool      // checks are put off now; false: they were resumed
}

// note records that a check was put off.
func (o *putOff) note(r *Rule, slot, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	made := VersionRef{r.ID, r.Version}
	v := o.all[made]
	if v == nil && len(o.all) == maxPutOff {
		return
	}
	if v == nil {
		v = &putOffVersion{PutOff: PutOff{made, r.Name, now}}
		if o.all == nil {
			o.all = map[VersionRef]*putOffVersion{}
		}
		o.all[made] = v
		o.log.Warn("checks are put off: the rules of the tenant used up the allowance of their conditions", "rule", r.Name)
	}
	if v.last = now; !v.isHeld || slot.Before(v.slot) {
		v.slot = slot
	}
	v.isHeld = true
}

// held returns the versions with checks that are put off now, and the oldest slots of these.
func (o *putOff) held() map[VersionRef]time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	slots := map[VersionRef]time.Time{}
	for made, v := range o.all {
		if v.isHeld {
			slots[made] = v.slot
		}
	}
	return slots
}

// resume records that checks of a version are not put off any more.
func (o *putOff) resume(made VersionRef) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v := o.all[made]; v != nil {
		v.isHeld = false
	}
}

// list returns the versions with checks that were put off within putOffFor, by rule and version.
func (o *putOff) list(now time.Time) (all []PutOff) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for made, v := range o.all {
		if !v.isHeld && now.Sub(v.last) > putOffFor {
			delete(o.all, made)
			continue
		}
		all = append(all, v.PutOff)
	}
	slices.SortFunc(all, func(a, b PutOff) int {
		return cmp.Or(cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Version, b.Version))
	})
	return all
}
