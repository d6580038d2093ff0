package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// expectedStream names the cursor that says up to which version of a rule the entities that it
// expects to beat are waited for. No stream of the broker has a slash in its name.
func expectedStream(ruleID int32) string { return fmt.Sprintf("expected/%d", ruleID) }

// Expect begins the waits for the entities that rules expect to beat, and ends those for the ones
// that a rule no longer expects. It returns how many began and ended. Each version is taken up
// once, whoever does it. What fails for one rule is returned after the others are done.
func (r *Registry) Expect(ctx context.Context) (n int, err error) {
	var errs []error
	for _, rule := range r.Book.current.Load().names {
		newest := rule.versions[0].saved
		if !rule.names() || rule.paused || r.taken(newest) {
			continue // one that is paused begins no waits until it goes on
		}
		done, err := r.expect(ctx, newest)
		n += done
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// names reports whether a version of the rule names entities that it expects to beat.
func (r *rule) names() bool {
	return slices.ContainsFunc(r.versions, func(v *version) bool { return v.document.expected() != nil })
}

// taken reports whether a version is known to be taken up, so that nobody has to be asked.
func (r *Registry) taken(s Saved) bool {
	version, known := r.expecting.Load(s.RuleID)
	return known && version == s.Version
}

// expectSaved takes up a version that was saved. What it can't do the upkeep does, also once a rule
// goes on that is paused.
func (r *Registry) expectSaved(ctx context.Context, c Change) error {
	if c.Document.expected() == nil || !c.After.PausedAt.IsZero() {
		return nil
	}
	_, err := r.expect(ctx, c.After)
	return err
}

// expect takes up a version of a rule, if that was not done.
//
//  1. What version was taken up last is asked.
//  2. Waits begin for the keys that it did not name, or did not begin to wait for because it
//     rested; waits for those that are named no more end.
//  3. That is written if nobody else did meanwhile, and if the rules are as they were.
func (r *Registry) expect(ctx context.Context, s Saved) (n int, err error) {
	stream := expectedStream(s.RuleID)
	for tries := 0; ; tries++ {
		cursor, known, err := r.Jobs.Cursor(ctx, stream)
		switch {
		case err != nil:
			return 0, err
		case known && cursor.LastSeq >= uint64(s.Version):
			r.expecting.Store(s.RuleID, s.Version)
			return 0, nil
		case !known:
			if err := r.Jobs.OpenCursor(ctx, futurejobs.Cursor{Stream: stream}); err != nil {
				return 0, err
			}
		}
		b := futurejobs.Batch{Stream: stream, After: cursor.LastSeq, Last: uint64(s.Version), RuleSet: r.Book.Revision()}
		if b.Effects, err = r.expectations(ctx, s, int32(cursor.LastSeq)); err != nil {
			return 0, err
		}
		applied, err := r.Jobs.Apply(ctx, b)
		switch {
		case err == nil:
			r.expecting.Store(s.RuleID, s.Version)
			return applied.Created + applied.Ended, nil
		case errors.Is(err, futurejobs.ErrRulesChanged) && tries < saveTries:
			if err := r.Book.Refresh(ctx); err != nil {
				return 0, err
			}
		case !errors.Is(err, futurejobs.ErrMoved) || tries >= saveTries:
			return 0, wrap("expect the beats of rule "+s.Name, err)
		}
	}
}

// expectations are what a version asks for beyond the one that was taken up last; 0: none was.
func (r *Registry) expectations(ctx context.Context, s Saved, last int32) ([]futurejobs.Effect, error) {
	rule, err := newVersion(s, r.outside()).compiled()
	if err != nil {
		return nil, err
	}
	before, err := r.lastTaken(ctx, s.RuleID, last)
	if err != nil {
		return nil, err
	}
	now, err := r.Jobs.Now(ctx)
	if err != nil {
		return nil, err
	}
	var effects []futurejobs.Effect
	for _, key := range rule.document.expects() {
		if slices.Contains(before.expects(), key) {
			continue
		}
		start, err := rule.expecting(key, now)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", key, err)
		}
		effects = append(effects, futurejobs.Effect{Rule: &rule.engine, Ref: rule.ref(key, r.Book.shards), Ask: start})
	}
	named := rule.document.expected()
	for _, key := range before.expected() {
		if !slices.Contains(named, key) {
			effects = append(effects, futurejobs.Effect{Rule: &rule.engine, Ref: rule.ref(key, r.Book.shards), Ask: rule.dropped()})
		}
	}
	return effects, nil
}

// lastTaken is the document of a version; an empty one for version 0.
func (r *Registry) lastTaken(ctx context.Context, ruleID, version int32) (Document, error) {
	if version == 0 {
		return Document{}, nil
	}
	v, err := r.Book.version(ctx, r.Book.current.Load(), id{ruleID, version})
	if err != nil {
		return Document{}, err
	}
	return v.document, nil
}

// expected are the keys that a rule names as those of its heartbeat.
func (d Document) expected() []string {
	if d.Trigger.Heartbeat == nil {
		return nil
	}
	return d.Trigger.Heartbeat.Keys
}

// expects are the keys that a rule waits for without a beat; none, while it rests.
func (d Document) expects() []string {
	if !d.Enabled {
		return nil
	}
	return d.expected()
}

// expecting is the beginning of a wait for the first beat of an entity.
func (r *Rule) expecting(key string, now time.Time) (start futurejobs.Start, err error) {
	now = now.UTC().Truncate(time.Microsecond)
	start.Job = futurejobs.Job{Version: r.engine.Version, Since: now}
	if start.Job.State, err = (pulse{Kind: Expected}).knowing(nil, nil); err != nil {
		return start, err
	}
	start.Job.FirstCheckAt, err = r.first(waitOf(start.Job.Of(key)), now)
	return start, err
}

// dropped ends the wait for an entity that is no longer expected.
func (r *Rule) dropped() futurejobs.End {
	end := futurejobs.End{Outcome: checks.Cancelled, Reason: "the rule no longer expects its beats"}
	if !r.document.Quiet {
		end.Close = func(j futurejobs.Job) alerts.Draft {
			return r.engine.Closing(j, fmt.Sprintf("%s %s is no longer expected to beat", r.engine.Entity, j.Key))
		}
	}
	return end
}
