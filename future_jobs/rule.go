package futurejobs

import (
	"context"
	"encoding/json"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// Rule is what the engine has to know of one version of a rule.
type Rule struct {
	ID      int32
	Version int32
	Name    string
	Entity  string
	Grid    Grid
	Limits  guards.Limits
	Handler checks.Handler
	// Finder finds out what the handler is asked about, before it is asked; nil: nothing is.
	Finder checks.Finder

	// Labels are what alerts about a job carry; nil: nothing.
	Labels func(Job) map[string]string
	// CatchUp is what becomes of a job that is found late.
	CatchUp CatchUp
	// Deleted: its jobs end unasked, and nothing is said.
	Deleted bool

	// Streams are those that can resolve or change a job of this rule. It is judged only
	// once they are read past its slot.
	Streams []string
	// Early is how long it is remembered what comes before its trigger is read; 0: it is not, as all comes by one stream.
	Early time.Duration
	// Scattered: triggers come by several streams, so that an older trigger may be read after a newer one.
	Scattered bool
	// Hears are the topics that the rule's beats come by: streams, and "" for pings. A beat counts
	// as missing only where all of them were heard; nil: the rule waits for no beats.
	BeatStreams []string
	// Upcoming is the slot at which the rule wants to look at a job next, as the job is at the
	// instant now: it may have passed. Zero: it does not know. nil: it never does.
	Upcoming func(j Job, now time.Time) time.Time
	// NamesTimes: some of its steps are taken at a time of the clock on the wall.
	NamesTimes bool
	// NamesSince: it says when a wait began, by the clock of another.
	NamesSince bool
	// ShiftState moves the instants in the state of a job by a span; nil: there are none.
	ShiftState func(state json.RawMessage, by time.Duration) json.RawMessage
	// Closing drafts what closes what was said about a job; nil: it stays unsaid.
	Closing func(j Job, text string) alerts.Draft
	// Loudest is the severity of an alert about the look itself, not about the entity.
	Loudest alerts.Severity
}

// labels are what an alert about a job carries.
func (r *Rule) labels(j Job) map[string]string {
	if r.Labels == nil {
		return nil
	}
	return r.Labels(j)
}

// Book knows the rules. Implementations are safe for concurrent use.
type Book interface {
	// Rule returns one version of a rule, also of a rule that was changed since.
	// A version that cannot be read any more is an error.
	Rule(ctx context.Context, id, version int32) (*Rule, error)
	// Revision is the revision of the rule set that answers are given from.
	Revision() int64
	// RuleChangedAt is the revision of the last change of a rule.
	RuleChangedAt(id int32) int64
	// NextSlot returns the first slot after t of any rule; the zero time when there is none.
	NextSlot(t time.Time) time.Time
	// CriticalRules returns the rules with a version whose Loudest is critical, in order.
	CriticalRules() []int32
	// Refresh reads the rules anew if they changed.
	Refresh(ctx context.Context) error
}

// afterSnooze is a slot or, where somebody snoozed the job until after it, the first one after that.
func (r *Rule) afterSnooze(j Job, slot time.Time) time.Time {
	if slot.Before(j.SnoozedUntil) {
		return r.Grid.Up(j.SnoozedUntil)
	}
	return slot
}

// isSnoozed reports whether the next look of a job is where a snooze put it: nobody knows when it would
// be else.
func (r *Rule) isSnoozed(j Job) bool {
	return !j.SnoozedUntil.IsZero() && j.due().Equal(r.Grid.Up(j.SnoozedUntil))
}

// notBeforeNextSlot is a slot that the sweep is still to come to.
func (r *Rule) notBeforeNextSlot(slot, now time.Time) time.Time {
	if slot.After(now) {
		return slot
	}
	return r.Grid.After(now)
}
