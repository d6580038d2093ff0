package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	futurejobs "deadman/future_jobs"
)

// ExpectedStream names the cursor of a rule's expected keys: the last version that was synced. No stream of the
// broker has a slash in its name.
func ExpectedStream(ruleID int32) string { return fmt.Sprintf("expected/%d", ruleID) }

// SyncExpectedKeys creates the jobs of the entities that rules expect heartbeats from, and ends the jobs of entities
// that a rule no longer expects: all of them, if it has no heartbeat any more. It returns how many jobs began and
// ended. Each version is synced once by all nodes together. Errors of one rule are returned after the others are done.
func (r *Registry) SyncExpectedKeys(ctx context.Context) (n int, err error) {
	var errs []error
	for _, rule := range r.Book.current.Load().names {
		s := expectedUpdate{rule.versions[0].saved, rule.paused}
		if !rule.expected() || r.isSynced(s) {
			continue
		}
		done, err := r.syncExpected(ctx, s)
		n += done
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// expectedUpdate is the newest version of a rule, to be synced. While the rule is paused, its sync ends jobs, and
// creates none until the rule is resumed.
type expectedUpdate struct {
	RuleVersion
	paused bool
}

// expectedDone is the last version whose expected keys were synced; if paused, only removals were applied.
type expectedDone struct {
	version int32
	paused  bool
}

// isSynced reports whether a version is known to be synced, without asking the store.
func (r *Registry) isSynced(s expectedUpdate) bool {
	done, known := r.expecting.Load(s.RuleID)
	return known && (done == expectedDone{s.Version, false} || done == expectedDone{s.Version, s.paused})
}

// expectSaved syncs a version that was saved. Upkeep completes the remainder, also once a paused rule is resumed.
func (r *Registry) expectSaved(ctx context.Context, c Change) error {
	if !c.expected() {
		return nil
	}
	_, err := r.syncExpected(ctx, expectedUpdate{c.After, !c.After.PausedAt.IsZero()})
	return err
}

// syncExpected syncs a version of a rule, if that was not done.
//
//  1. It reads the last synced version.
//  2. If the rule has no heartbeat any more, the jobs of older versions end.
//  3. Jobs are created for the keys that the last version did not name, or that it created no jobs for because it
//     rested; jobs of keys that are no longer named end.
//  4. The result is written if no other node did so meanwhile, and if the rules are unchanged. For a paused rule, the
//     creation of jobs is left for later, and so is the cursor.
func (r *Registry) syncExpected(ctx context.Context, s expectedUpdate) (n int, err error) {
	stream := ExpectedStream(s.RuleID)
	for tries := 0; ; tries++ {
		cursor, known, err := r.Jobs.Cursor(ctx, stream)
		switch {
		case err != nil:
			return 0, err
		case known && cursor.LastSeq >= uint64(s.Version):
			r.expecting.Store(s.RuleID, expectedDone{s.Version, false})
			return n, nil
		case !known && !s.paused:
			if err := r.Jobs.OpenCursor(ctx, futurejobs.Cursor{Stream: stream}); err != nil {
				return n, err
			}
		}
		ended, err := r.endOrphanedWaits(ctx, s.RuleVersion)
		n += ended
		if err != nil {
			return n, err
		}
		b := futurejobs.EffectBatch{RuleSet: r.Book.Revision(), Rules: []int32{s.RuleID}}
		if !s.paused {
			b.Stream, b.After, b.Last = stream, cursor.LastSeq, uint64(s.Version)
		}
		if b.Effects, err = r.expectations(ctx, s, int32(cursor.LastSeq)); err != nil {
			return n, err
		}
		applied, err := r.Jobs.Apply(ctx, b)
		switch {
		case err == nil:
			r.expecting.Store(s.RuleID, expectedDone{s.Version, s.paused})
			return n + applied.Created + applied.Ended, nil
		case errors.Is(err, futurejobs.ErrRulesChanged) && tries < saveTries:
			if err := r.Book.Refresh(ctx); err != nil {
				return n, err
			}
		case !errors.Is(err, futurejobs.ErrCursorMoved) || tries >= saveTries:
			return n, wrapErr("expect the beats of rule "+s.Name, err)
		}
	}
}

// endOrphanedWaits ends the jobs of older versions if a version has no heartbeat any more: no sender could postpone
// these jobs.
func (r *Registry) endOrphanedWaits(ctx context.Context, s RuleVersion) (int, error) {
	rule, err := newVersion(s, r.outside()).compiled()
	if err != nil || rule.beats != nil {
		return 0, err
	}
	versions, err := r.Store.Named(ctx, s.Name)
	if err != nil {
		return 0, err
	}
	beaten := make(map[int32]bool)
	for _, v := range versions {
		if v.RuleID == s.RuleID {
			beaten[v.Version] = newVersion(v, r.outside()).document.Trigger.Heartbeat != nil
		}
	}
	return r.each(ctx, s.RuleID, "", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Effect{Rule: &rule.engine, Ref: j.Ref, Action: rule.endExpected()}, beaten[j.Version]
	})
}

// expectations returns the effects of a version beyond the one synced last; 0: none was.
func (r *Registry) expectations(ctx context.Context, s expectedUpdate, last int32) ([]futurejobs.Effect, error) {
	rule, err := newVersion(s.RuleVersion, r.outside()).compiled()
	if err != nil {
		return nil, err
	}
	before, err := r.documentOf(ctx, s.RuleID, last)
	if err != nil {
		return nil, err
	}
	waited, err := r.keptKeys(ctx, s, last, before.expects())
	if err != nil {
		return nil, err
	}
	now, err := r.Jobs.Now(ctx)
	if err != nil {
		return nil, err
	}
	var effects []futurejobs.Effect
	for _, key := range rule.document.expects() {
		if s.paused || slices.Contains(waited, key) {
			continue
		}
		start, err := rule.startExpected(key, now)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
		effects = append(effects, futurejobs.Effect{Rule: &rule.engine, Ref: rule.ref(key, r.Book.shards), Action: start})
	}
	named := rule.document.expected()
	for _, key := range before.expected() {
		if !slices.Contains(named, key) {
			effects = append(effects, futurejobs.Effect{Rule: &rule.engine, Ref: rule.ref(key, r.Book.shards), Action: rule.endExpected()})
		}
	}
	return effects, nil
}

// keptKeys returns those keys of a synced version that all versions after it name, too. In a pause the jobs of keys
// that one of them did not name have ended.
func (r *Registry) keptKeys(ctx context.Context, s expectedUpdate, last int32, keys []string) ([]string, error) {
	for v := last + 1; last > 0 && v < s.Version; v++ {
		between, err := r.documentOf(ctx, s.RuleID, v)
		if err != nil {
			return nil, err
		}
		named := between.expected()
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !slices.Contains(named, key) })
	}
	return keys, nil
}

// documentOf returns the document of a version; an empty one for version 0.
func (r *Registry) documentOf(ctx context.Context, ruleID, version int32) (Document, error) {
	if version == 0 {
		return Document{}, nil
	}
	v, err := r.Book.version(ctx, r.Book.current.Load(), id{ruleID, version})
	if err != nil {
		return Document{}, err
	}
	return v.document, nil
}
