package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// ExpectedStream names the cursor of a rule's expected keys: the last version that was synced. No stream of the
// broker has a slash in its name.
func ExpectedStream(ruleID int32) string { return fmt.Sprintf("expected/%d", ruleID) }

// expectedUpdate is the newest version of a rule, to be synced. While the rule is paused, its sync ends jobs, and
// creates none until the rule is resumed.
type expectedUpdate struct {
	*Registry
	version RuleVersion
	paused  bool
}

// expectedDone is the last version whose expected keys were synced; if paused, only removals were applied.
type expectedDone struct {
	version int32
	paused  bool
}

// isSynced reports whether a version is known to be synced, without asking the store.
func (u expectedUpdate) isSynced() bool {
	done, known := u.expecting.Load(u.version.RuleID)
	return known && (done == expectedDone{u.version.Version, false} || done == expectedDone{u.version.Version, u.paused})
}

// sync syncs a version of a rule, if that was not done.
//
//  1. It reads the last synced version. The first version of a rule without a heartbeat has nothing to sync, and no cursor is
//     written for it.
//  2. If the rule has no heartbeat any more, the jobs of older versions end.
//  3. Jobs are created for the keys that the last version did not name, or that it created no jobs for because it
//     rested; jobs of keys that are no longer named end.
//  4. The result is written if no other node did so meanwhile, and if the rules are unchanged. For a paused rule, the
//     creation of jobs is left for later, and so is the cursor.
func (u expectedUpdate) sync(ctx context.Context) (n int, err error) {
	if u.version.Version == 1 && newVersion(u.version, u.outside()).document.Trigger.Heartbeat == nil {
		u.expecting.Store(u.version.RuleID, expectedDone{u.version.Version, false})
		return 0, nil
	}
	stream := ExpectedStream(u.version.RuleID)
	for tries := 0; ; tries++ {
		cursor, known, err := u.Jobs.Cursor(ctx, stream)
		switch {
		case err != nil:
			return 0, err
		case known && cursor.LastSeq >= uint64(u.version.Version):
			u.expecting.Store(u.version.RuleID, expectedDone{u.version.Version, false})
			return n, nil
		case !known:
			if cursor, err = u.start(ctx, stream); err != nil {
				return n, err
			}
		}
		ended, err := u.endOrphanedJobs(ctx)
		n += ended
		if err != nil {
			return n, err
		}
		b := futurejobs.EffectBatch{RuleSet: u.Catalog.Revision(), Rules: []int32{u.version.RuleID}}
		if !u.paused {
			b.Stream, b.After, b.Last = stream, cursor.LastSeq, uint64(u.version.Version)
		}
		if b.Effects, err = u.expectations(ctx, int32(cursor.LastSeq)); err != nil {
			return n, err
		}
		applied, err := u.Jobs.Apply(ctx, b)
		switch {
		case err == nil:
			u.expecting.Store(u.version.RuleID, expectedDone{u.version.Version, u.paused})
			return n + applied.Created + applied.Ended, nil
		case errors.Is(err, futurejobs.ErrRulesChanged) && tries < saveTries:
			if err := u.Catalog.Refresh(ctx); err != nil {
				return n, err
			}
		case !errors.Is(err, futurejobs.ErrCursorMoved) || tries >= saveTries:
			return n, wrapErr("sync the expected keys of rule "+u.version.Name, err)
		}
	}
}

// start returns the cursor of a rule without one, and opens it unless the rule is paused. A first version that retention deleted
// has no jobs any more.
func (u expectedUpdate) start(ctx context.Context, stream string) (futurejobs.Cursor, error) {
	cursor := futurejobs.Cursor{Stream: stream}
	if u.version.Version > 1 {
		switch first, err := u.documentOf(ctx, 1); {
		case err == nil && first.Trigger.Heartbeat == nil:
			cursor.LastSeq = 1
		case err != nil && !errors.Is(err, futurejobs.ErrNotFound):
			return cursor, err
		}
	}
	if u.paused {
		return cursor, nil
	}
	return cursor, u.Jobs.OpenCursor(ctx, cursor)
}

// endOrphanedJobs ends the jobs of older versions if a version has no heartbeat any more: no sender could postpone
// these jobs.
func (u expectedUpdate) endOrphanedJobs(ctx context.Context) (int, error) {
	rule, err := newVersion(u.version, u.outside()).compiled()
	if err != nil || rule.heartbeat != nil {
		return 0, err
	}
	versions, err := u.Store.Named(ctx, u.version.Name)
	if err != nil {
		return 0, err
	}
	hasHeartbeat := make(map[int32]bool)
	for _, v := range versions {
		if v.RuleID == u.version.RuleID {
			hasHeartbeat[v.Version] = newVersion(v, u.outside()).document.Trigger.Heartbeat != nil
		}
	}
	return u.pending(u.version.RuleID).each(ctx, "", func(j futurejobs.Job) (futurejobs.Effect, bool) {
		return futurejobs.Effect{Rule: &rule.engine, Ref: j.Ref, Action: endExpected(rule)}, hasHeartbeat[j.Version]
	})
}

// expectations returns the effects of a version beyond the one synced last; 0: none was.
func (u expectedUpdate) expectations(ctx context.Context, last int32) ([]futurejobs.Effect, error) {
	rule, err := newVersion(u.version, u.outside()).compiled()
	if err != nil {
		return nil, err
	}
	before, err := u.documentOf(ctx, last)
	if err != nil {
		return nil, err
	}
	waited, err := u.keptKeys(ctx, last, before.InitialKeys())
	if err != nil {
		return nil, err
	}
	now, err := u.Jobs.Now(ctx)
	if err != nil {
		return nil, err
	}
	var effects []futurejobs.Effect
	for _, key := range rule.document.InitialKeys() {
		if u.paused || slices.Contains(waited, key) {
			continue
		}
		effect, err := rule.ExpectationEffect(key, now, u.Catalog.shards)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
		effects = append(effects, effect)
	}
	named := rule.document.ExpectedKeys()
	for _, key := range before.ExpectedKeys() {
		if !slices.Contains(named, key) {
			effects = append(effects, futurejobs.Effect{Rule: &rule.engine, Ref: rule.ref(key, u.Catalog.shards), Action: endExpected(rule)})
		}
	}
	return effects, nil
}

// keptKeys returns those keys of a synced version that all versions after it name, too. In a pause the jobs of keys
// that one of them did not name have ended.
func (u expectedUpdate) keptKeys(ctx context.Context, last int32, keys []string) ([]string, error) {
	for v := last + 1; len(keys) > 0 && v < u.version.Version; v++ {
		between, err := u.documentOf(ctx, v)
		if err != nil {
			return nil, err
		}
		named := between.ExpectedKeys()
		keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !slices.Contains(named, key) })
	}
	return keys, nil
}

// documentOf returns the document of a version; an empty one for version 0.
func (u expectedUpdate) documentOf(ctx context.Context, version int32) (document.Document, error) {
	if version == 0 {
		return document.Document{}, nil
	}
	v, err := u.Catalog.version(ctx, u.Catalog.current.Load(), id{u.version.RuleID, version})
	if err != nil {
		return document.Document{}, err
	}
	return v.document, nil
}

// WatchAgain returns the job of a heartbeat that begins when a person ends the job of its key: the next heartbeat is expected from
// then on. It returns nil for a rule that is not enabled, or has no heartbeat.
func WatchAgain(r *Rule, was futurejobs.Job, now time.Time) (*futurejobs.Job, error) {
	if r.heartbeat == nil || !r.document.Enabled {
		return nil, nil
	}
	last := pulseOf(was.State)
	if last.Kind != Expected {
		last.At, last.NoSuccess = cmp.Or(last.At, was.Since), true
	}
	start, err := r.startExpected(was.Key, now, heartbeatState{At: last.At, NoSuccess: last.NoSuccess}, was.Event)
	return &start.Job, err
}

// endExpected ends the job of an entity that is no longer expected.
func endExpected(r *Rule) futurejobs.End {
	reason, text := "the rule no longer expects its heartbeats", "%s %s is no longer expected to send heartbeats"
	if r.heartbeat == nil {
		reason, text = "the rule no longer names its key", "%s %s is no longer expected"
	}
	end := futurejobs.End{Outcome: checks.Cancelled, Reason: reason}
	if !r.document.Quiet {
		end.Close = func(j futurejobs.Job) alerts.Draft {
			return r.engine.Closing(j, fmt.Sprintf(text, r.engine.Entity, j.Key))
		}
	}
	return end
}
