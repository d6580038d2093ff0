package pings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// Book knows the rules. rules.Catalog implements it.
type Book interface {
	// Newest returns the newest version of a rule, or futurejobs.ErrNotFound.
	Newest(name string) (*rules.Rule, error)
	// Paused reports whether the rule of a name begins no new waits for a while.
	Paused(name string) bool
	// Revision is the revision of the rule set that answers are given from.
	Revision() int64
	// Refresh reads the rules anew if they changed.
	Refresh(ctx context.Context) error
}

var _ Book = (*rules.Catalog)(nil)

// Target is whose ping it is.
type Target struct {
	Rule   string
	RuleID int32
	Key    string
}

// Resolver finds out whose a ping is. It is safe for concurrent use.
type Resolver struct {
	Store Store
	Book  Book
	Now   func() time.Time

	recent addressCache
	newest ruleRefresher
}

// Resolve finds whose the ping of a path is, and what it says. create makes an address for a key that
// is not known to the rule of a ping key.
//
//  1. The id is that of a key's address, and a signal may follow; or it is a ping key, and a key
//     follows, and then a signal.
//  2. Of the rules that have the ping key, one has to know the key: it declares it, or there is an
//     address for it.
//  3. Where none does, the rules are looked at anew: another node may have saved one.
//  4. Where none does still, one that is alone with the ping key learns the key if it is to, and if
//     it would take pings of it.
//
// It returns ErrUnknown, ErrAmbiguous, ErrExit, ErrFull, and the errors of rules.Rule.TakesBeats.
func (f *Resolver) Resolve(ctx context.Context, p Path, create bool) (to Target, says Signal, created bool, err error) {
	targets, err := f.targets(ctx, p.ID)
	if err != nil || len(targets) == 0 {
		return to, says, false, orUnknown(err)
	}
	if a := targets[0]; !a.IsPingKey() {
		says, err = readSignal(p.Rest)
		return Target{a.Rule, a.RuleID, a.Key}, says, false, err
	}
	if len(p.Rest) == 0 {
		return to, says, false, ErrUnknown
	}
	key := p.Rest[0]
	if says, err = readSignal(p.Rest[1:]); err != nil {
		return to, says, false, err
	}
	revision := f.Book.Revision()
	if to, err = f.ruleKnowing(ctx, targets, key); errors.Is(err, ErrUnknown) {
		to, err = f.knowingSince(ctx, revision, targets, key)
	}
	if !create || !errors.Is(err, ErrUnknown) {
		return to, says, false, err
	}
	to, created, err = f.createAddress(ctx, targets, key)
	return to, says, created, err
}

func orUnknown(err error) error {
	if err == nil {
		return ErrUnknown
	}
	return err
}

// targets are the addresses of an id, as they were seconds ago or later.
func (f *Resolver) targets(ctx context.Context, id string) ([]Address, error) {
	now, changes := f.Now(), f.recent.changes()
	if found, ok := f.recent.get(seenID(id), now); ok {
		return found, nil
	}
	found, err := f.Store.PingTargets(ctx, id)
	if err == nil && len(found) > 0 {
		f.recent.keep(seenID(id), found, now, changes)
	}
	return found, err
}

// ruleKnowing is the one rule of those that have a ping key which knows a key.
func (f *Resolver) ruleKnowing(ctx context.Context, having []Address, key string) (Target, error) {
	var found []Target
	for _, a := range having {
		known, err := f.knows(ctx, a, key)
		if err != nil {
			return Target{}, err
		}
		if known {
			found = append(found, Target{a.Rule, a.RuleID, key})
		}
	}
	switch len(found) {
	case 0:
		return Target{}, ErrUnknown
	case 1:
		return found[0], nil
	}
	return Target{}, ErrAmbiguous
}

// knowingSince is knowing by the rules as they are now; ErrUnknown where they are at a revision still.
func (f *Resolver) knowingSince(ctx context.Context, revision int64, having []Address, key string) (Target, error) {
	if err := f.newest.refresh(ctx, f.Book); err != nil {
		return Target{}, err
	}
	if f.Book.Revision() == revision {
		return Target{}, ErrUnknown
	}
	return f.ruleKnowing(ctx, having, key)
}

// knows reports whether the rule of a ping key declares a key, or has an address for it; or did so
// seconds ago.
func (f *Resolver) knows(ctx context.Context, a Address, key string) (bool, error) {
	now, changes := f.Now(), f.recent.changes()
	if _, ok := f.recent.get(seenKey(a.RuleID, key), now); ok {
		return true, nil
	}
	rule, err := f.Book.Newest(a.Rule)
	if err != nil || !expects(rule, key) {
		_, err := f.Store.PingAddress(ctx, a.RuleID, key)
		switch {
		case errors.Is(err, futurejobs.ErrNotFound):
			return false, nil
		case err != nil:
			return false, err
		}
	}
	f.recent.keep(seenKey(a.RuleID, key), nil, now, changes)
	return true, nil
}

// expects reports whether a rule declares a key.
func expects(r *rules.Rule, key string) bool {
	h := r.Document().Trigger.Heartbeat
	return h != nil && slices.Contains(h.Keys, key)
}

// createAddress makes an address for a key that pings are to bring into being.
func (f *Resolver) createAddress(ctx context.Context, having []Address, key string) (Target, bool, error) {
	if len(having) > 1 {
		return Target{}, false, ErrAmbiguous // nobody knows whose it is to be
	}
	of := having[0]
	rule, err := f.Book.Newest(of.Rule)
	if err != nil {
		return Target{}, false, err
	}
	if err := rule.TakesBeats(key); err != nil { // an address that nothing can come in by helps nobody
		return Target{}, false, err
	}
	_, created, err := f.Create(ctx, Address{RuleID: of.RuleID, Rule: of.Rule, Key: key}, false)
	return Target{of.Rule, of.RuleID, key}, created, err
}

// Create makes the address of a rule and a key, or returns the one that it has, unless replace:
// then a new one takes its place. Where a.ID is empty, nobody can guess the new one. The errors are
// those of Store.CreatePingAddress.
func (f *Resolver) Create(ctx context.Context, a Address, replace bool) (kept Address, created bool, err error) {
	if a.ID == "" {
		if a.ID, err = NewID(); err != nil {
			return a, false, err
		}
	}
	defer f.recent.forget() // also after an error: it may have been done nevertheless
	return f.Store.CreatePingAddress(ctx, a, replace)
}

// Sharers are the names of the rules that have an id, which are several where it is a ping key.
func (f *Resolver) Sharers(ctx context.Context, id string) ([]string, error) {
	found, err := f.Store.PingTargets(ctx, id)
	names := make([]string, len(found))
	for i, a := range found {
		names[i] = a.Rule
	}
	return names, err
}

// Addresses are those of a rule. The errors are those of Store.PingAddresses.
func (f *Resolver) Addresses(ctx context.Context, ruleID int32) ([]Address, error) {
	return f.Store.PingAddresses(ctx, ruleID)
}

// Delete takes an address away: on this node at once, and on others within seconds. The errors are
// those of Store.DeletePingAddress.
func (f *Resolver) Delete(ctx context.Context, ruleID int32, key string) error {
	defer f.recent.forget()
	return f.Store.DeletePingAddress(ctx, ruleID, key)
}

// History is what the log has of a rule's pings, newest first: of a key, or of all where it is
// empty; those with a smaller id than before, where that is not 0.
func (f *Resolver) History(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]Entry, error) {
	entries, err := f.Store.PingLog(ctx, ruleID, key, before, limit)
	fillDurations(entries)
	return entries, err
}

func seenID(id string) string { return "id/" + id }

func seenKey(ruleID int32, key string) string { return fmt.Sprintf("key/%d/%s", ruleID, key) }

// ruleRefresher has the rules read anew for whoever is to know of all that was saved before it asked. All
// who ask while they are read have them read once more, together: who guesses keys asks the database
// no faster than it answers. The zero value is ready.
type ruleRefresher struct {
	reading sync.Mutex
	begun   atomic.Int64 // how often they were read, or are being read
}

// refresh returns once the rules are read, by a reading that began after the call.
func (n *ruleRefresher) refresh(ctx context.Context, book Book) error {
	came := n.begun.Load()
	n.reading.Lock()
	defer n.reading.Unlock()
	if n.begun.Load() > came {
		return nil
	}
	n.begun.Add(1)
	err := book.Refresh(ctx)
	if err != nil {
		n.begun.Add(-1) // nobody else has them by that
	}
	return err
}
