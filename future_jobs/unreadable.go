package futurejobs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Unreadable is a version of a rule that a node cannot read although jobs of it are due, for example because a
// calendar is gone or a newer program saved it.
type Unreadable struct {
	VersionRef
	Since  time.Time // the oldest slot of an affected job
	Reason string
}

// maxUnreadable bounds the number of stored versions.
const maxUnreadable = 50

// unreadable stores the unreadable versions. The sweep reads no further jobs of such a version, so it stays until it
// can be read.
type unreadable struct {
	mu  sync.Mutex
	all map[VersionRef]Unreadable
}

// note records that the version of a job could not be read.
func (u *unreadable) note(made VersionRef, slot time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	known, is := u.all[made]
	switch {
	case !is && len(u.all) == maxUnreadable:
		return
	case is && known.Since.Before(slot):
		slot = known.Since
	case u.all == nil:
		u.all = make(map[VersionRef]Unreadable)
	}
	u.all[made] = Unreadable{VersionRef: made, Since: slot, Reason: err.Error()}
}

// recheck removes the versions that can be read now.
func (u *unreadable) recheck(ctx context.Context, catalog RuleReader) {
	for _, v := range u.list() {
		if _, err := catalog.Rule(ctx, v.RuleID, v.Version); err == nil {
			u.mu.Lock()
			delete(u.all, v.VersionRef)
			u.mu.Unlock()
		}
	}
}

// err joins the reasons in a fixed order, so that the same error is logged once.
func (u *unreadable) err() error {
	var errs []error
	for _, v := range u.list() {
		errs = append(errs, errors.New(v.Reason))
	}
	return errors.Join(errs...)
}

func (u *unreadable) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = nil
}

// list returns the versions, by rule and version.
func (u *unreadable) list() []Unreadable {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []Unreadable
	for _, v := range u.all {
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Unreadable) int {
		return cmp.Or(cmp.Compare(a.RuleID, b.RuleID), cmp.Compare(a.Version, b.Version))
	})
	return all
}
