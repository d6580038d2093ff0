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

// RuleFinder has the rules. rules.Catalog implements it.
type RuleFinder interface {
	// Newest returns the newest version of a rule, or futurejobs.ErrNotFound.
	Newest(name string) (*rules.Rule, error)
	// Paused reports whether the rule of a name is paused and creates no jobs.
	Paused(name string) bool
	// Revision returns the revision of the loaded rules.
	Revision() int64
	// Refresh reloads the rules if they changed.
	Refresh(ctx context.Context) error
}

var _ RuleFinder = (*rules.Catalog)(nil)

// Target is the rule and key of a ping.
type Target struct {
	Rule   string
	RuleID int32
	Key    string
}

// Resolver finds the rule and key of a ping. It is safe for concurrent use.
type Resolver struct {
	Store   Store
	Catalog RuleFinder
	Now     func() time.Time

	recent addressCache
	newest ruleRefresher
}

// Resolve returns the rule, the key and the signal of a ping's path. If create is set, a key may be unknown to the rule of
// a ping key: isNew reports that, and Create has to give it an address once the ping is accepted.
//
//  1. The id is that of a key's address, optionally followed by a signal; or it is a ping key, followed by a key and
//     optionally a signal.
//  2. Of the rules with the ping key, exactly one must know the key: it declares the key or has an address for it.
//  3. If none does, the rules are refreshed: another node may have saved one.
//  4. If still none does and only one rule has the ping key, the key is new, if requested, and if the rule accepts pings of
//     the key and has room for its address.
//
// It returns ErrUnknown, ErrAmbiguous, ErrBadExitStatus, ErrTooManyAddresses, and the errors of rules.Rule.AcceptsHeartbeat.
func (f *Resolver) Resolve(ctx context.Context, p Path, create bool) (to Target, signal Signal, isNew bool, err error) {
	targets, err := f.targets(ctx, p.ID)
	if err != nil || len(targets) == 0 {
		return to, signal, false, orUnknown(err)
	}
	if a := targets[0]; !a.IsPingKey() {
		signal, err = readSignal(p.Rest)
		return Target{a.Rule, a.RuleID, a.Key}, signal, false, err
	}
	if len(p.Rest) == 0 {
		return to, signal, false, ErrUnknown
	}
	key := p.Rest[0]
	if signal, err = readSignal(p.Rest[1:]); err != nil {
		return to, signal, false, err
	}
	revision := f.Catalog.Revision()
	if to, err = f.ruleKnowing(ctx, targets, key); errors.Is(err, ErrUnknown) {
		to, err = f.knowingSince(ctx, revision, targets, key)
	}
	if !create || !errors.Is(err, ErrUnknown) {
		return to, signal, false, err
	}
	to, err = f.newTarget(ctx, targets, key)
	return to, signal, err == nil, err
}

func orUnknown(err error) error {
	if err == nil {
		return ErrUnknown
	}
	return err
}

// targets returns the addresses of an id, at most a few seconds old.
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

// ruleKnowing returns the single rule with this ping key that knows the key.
func (f *Resolver) ruleKnowing(ctx context.Context, having []Address, key string) (Target, error) {
	var found []Target
	for _, a := range having {
		known, err := f.hasKey(ctx, a, key)
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

// knowingSince is ruleKnowing after a refresh of the rules; ErrUnknown if their revision is unchanged.
func (f *Resolver) knowingSince(ctx context.Context, revision int64, having []Address, key string) (Target, error) {
	if err := f.newest.refresh(ctx, f.Catalog); err != nil {
		return Target{}, err
	}
	if f.Catalog.Revision() == revision {
		return Target{}, ErrUnknown
	}
	return f.ruleKnowing(ctx, having, key)
}

// hasKey reports whether the rule of a ping key declares a key or has an address for it. The result may be a few seconds
// old.
func (f *Resolver) hasKey(ctx context.Context, a Address, key string) (bool, error) {
	now, changes := f.Now(), f.recent.changes()
	if _, ok := f.recent.get(seenKey(a.RuleID, key), now); ok {
		return true, nil
	}
	rule, err := f.Catalog.Newest(a.Rule)
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

// newTarget returns the target of a key that no rule knows.
func (f *Resolver) newTarget(ctx context.Context, having []Address, key string) (Target, error) {
	if len(having) > 1 {
		return Target{}, ErrAmbiguous // the rule of the key is ambiguous
	}
	of := having[0]
	rule, err := f.Catalog.Newest(of.Rule)
	if err != nil {
		return Target{}, err
	}
	if err := rule.AcceptsHeartbeat(key); err != nil { // an address that accepts no pings is useless
		return Target{}, err
	}
	n, err := f.Store.CountPingAddresses(ctx, of.RuleID)
	if err == nil && n >= MaxAddresses {
		err = ErrTooManyAddresses
	}
	return Target{of.Rule, of.RuleID, key}, err
}

// Create creates the address of a rule and a key, or returns the existing one. If replace is set, the new one replaces
// it. If a.ID is empty, the id is random. The errors are those of Store.CreatePingAddress.
func (f *Resolver) Create(ctx context.Context, a Address, replace bool) (kept Address, created bool, err error) {
	if a.ID == "" {
		if a.ID, err = NewID(); err != nil {
			return a, false, err
		}
	}
	defer f.recent.forget() // also after an error: the change may be committed
	return f.Store.CreatePingAddress(ctx, a, replace)
}

// Sharers returns the names of the rules with an id; several rules may share a ping key.
func (f *Resolver) Sharers(ctx context.Context, id string) ([]string, error) {
	found, err := f.Store.PingTargets(ctx, id)
	names := make([]string, len(found))
	for i, a := range found {
		names[i] = a.Rule
	}
	return names, err
}

// Addresses returns the addresses of a rule. The errors are those of Store.PingAddresses.
func (f *Resolver) Addresses(ctx context.Context, ruleID int32) ([]Address, error) {
	return f.Store.PingAddresses(ctx, ruleID)
}

// Delete deletes an address: on this node at once, on others within seconds. The errors are those of
// Store.DeletePingAddress.
func (f *Resolver) Delete(ctx context.Context, ruleID int32, key string) error {
	defer f.recent.forget()
	return f.Store.DeletePingAddress(ctx, ruleID, key)
}

// History returns log entries of a rule's pings, newest first. An empty key returns those of all keys. If before is not
// 0, only entries with smaller ids are returned.
func (f *Resolver) History(ctx context.Context, ruleID int32, key string, before int64, limit int) ([]Entry, error) {
	entries, err := f.Store.PingLog(ctx, ruleID, key, before, limit)
	fillDurations(entries)
	return entries, err
}

func seenID(id string) string { return "id/" + id }

func seenKey(ruleID int32, key string) string { return fmt.Sprintf("key/%d/%s", ruleID, key) }

// ruleRefresher refreshes the rules for callers that need every change committed before their call. Concurrent callers
// share one refresh, so clients that guess keys query the database no faster than it answers. The zero value is ready.
type ruleRefresher struct {
	reading sync.Mutex
	begun   atomic.Int64 // number of refreshes that have begun
}

// refresh returns after a refresh of the rules that began after the call.
func (n *ruleRefresher) refresh(ctx context.Context, catalog RuleFinder) error {
	came := n.begun.Load()
	n.reading.Lock()
	defer n.reading.Unlock()
	if n.begun.Load() > came {
		return nil
	}
	n.begun.Add(1)
	err := catalog.Refresh(ctx)
	if err != nil {
		n.begun.Add(-1) // no other caller has counted it
	}
	return err
}
