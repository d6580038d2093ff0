package server

import (
	"context"
	"errors"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
	"deadman/web"
)

// storedSchedules creates, replaces and deletes schedules that are stored under rules.
type storedSchedules struct {
	store   *store.Store
	catalog rules.StoredCatalog
	now     func() time.Time // the database's time
}

var _ web.ScheduleActions = (*storedSchedules)(nil)

// ChangeSchedules implements web.ScheduleActions.
//
//  1. Each change is prepared by its rule. A refused change does not affect the others.
//  2. The others are written in one transaction.
//  3. If a rule was changed or deleted in the meantime, all changes are prepared again.
func (s *storedSchedules) ChangeSchedules(ctx context.Context, all []web.ScheduleChange) (web.ChangedSchedules, error) {
	now := s.now()
	err := futurejobs.ErrRulesChanged
	for range maxConflictRetries {
		batch := newScheduleBatch(s.catalog, all, now)
		if batch.rulesMissing { // a rule may have been saved this moment
			if err := s.catalog.Refresh(ctx); err != nil {
				return web.ChangedSchedules{}, err
			}
			batch = newScheduleBatch(s.catalog, all, now)
		}
		if len(batch.put)+len(batch.gone) == 0 {
			return web.ChangedSchedules{Refused: batch.refused}, nil
		}
		var done futurejobs.ScheduleChanges
		done, err = s.store.PutSchedules(ctx, batch.put, batch.gone)
		if !errors.Is(err, futurejobs.ErrRulesChanged) && !errors.Is(err, futurejobs.ErrNotFound) {
			return web.ChangedSchedules{ScheduleChanges: done, Refused: batch.refused, Ended: batch.ended}, err
		}
		if err := s.catalog.Refresh(ctx); err != nil {
			return web.ChangedSchedules{}, err
		}
	}
	return web.ChangedSchedules{}, err
}

// HasSchedules implements web.ScheduleActions.
func (s *storedSchedules) HasSchedules(rule string) bool {
	_, err := s.catalog.StoredRule(rule)
	return err == nil
}

// NextTicks implements web.ScheduleActions.
func (s *storedSchedules) NextTicks(rule string, of futurejobs.Schedule, n int) []time.Time {
	stored, err := s.catalog.StoredRule(rule)
	if err != nil {
		return nil // the rule has another trigger, or was deleted
	}
	return stored.Next(of, n)
}

// scheduleBatch is the changes of one transaction.
type scheduleBatch struct {
	put          []futurejobs.Schedule
	gone         []futurejobs.ScheduleRef
	refused      []error // by the index of the change; nil: it is in put or gone
	ended        []int   // indexes of the changes in put whose schedules are enabled and have no further tick
	rulesMissing bool    // whether a change was refused because its rule is unknown or has no stored schedules
}

// ruleOfSchedules is a rule whose schedules are changed.
type ruleOfSchedules struct {
	id     int32
	stored rules.StoredRule
	gone   error // the rule does not exist, so that its schedules cannot be deleted
	err    error // schedules cannot be stored: the rule does not exist, or has another trigger
}

// newScheduleBatch prepares changes with the newest versions of their rules.
func newScheduleBatch(catalog rules.StoredCatalog, all []web.ScheduleChange, now time.Time) *scheduleBatch {
	b, known := &scheduleBatch{refused: make([]error, len(all))}, make(map[string]ruleOfSchedules)
	for i := range all {
		change := &all[i]
		of, met := known[change.Rule]
		if !met {
			of.id, of.gone = catalog.RuleID(change.Rule)
			of.stored, of.err = catalog.StoredRule(change.Rule)
			known[change.Rule] = of
		}
		if b.refused[i] = b.add(of, change, now); b.refused[i] != nil || change.Deleted {
			continue
		}
		if last := b.put[len(b.put)-1]; last.Enabled && last.NextAt.IsZero() {
			b.ended = append(b.ended, i)
		}
	}
	return b
}

// add adds a change of a schedule of a rule, or returns the reason that the rule refuses it. Schedules of a rule that has
// another trigger now can be deleted.
func (b *scheduleBatch) add(of ruleOfSchedules, change *web.ScheduleChange, now time.Time) error {
	if change.Deleted {
		if of.gone != nil {
			b.rulesMissing = true
			return of.gone
		}
		b.gone = append(b.gone, futurejobs.ScheduleRef{RuleID: of.id, ID: change.ID})
		return nil
	}
	if of.err != nil {
		b.rulesMissing = true
		return of.err
	}
	next := change.Schedule // Prepare changes the copy, so that the change can be prepared again
	if err := of.stored.Prepare(&next, now); err != nil {
		return err
	}
	b.put = append(b.put, next)
	return nil
}
