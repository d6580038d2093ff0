package futurejobs

import (
	"context"
	"encoding/json"
	"time"

	"deadman/alerts"
	"deadman/checks"
	"deadman/guards"
)

// Rule is one version of a rule, as far as the engine needs it.
type Rule struct {
	ID      int32
	Version int32
	Name    string
	Entity  string
	Grid    Grid
	Limits  guards.Limits
	Handler checks.Handler
	// Finder does the lookup before the handler is called; nil: none.
	Finder checks.Finder

	// Allowance bounds what checks cost the node over time; nil: nothing does.
	Allowance Allowance

	// Labels returns the labels of alerts about a job; nil: none.
	Labels func(Job) map[string]string
	// CatchUp configures late jobs.
	CatchUp CatchUp
	// Deleted ends the rule's jobs without a check and without an alert.
	Deleted bool

	// Streams can resolve or change a job of this rule. A job is checked only once they are read past its slot.
	Streams []string
	// Early is how long events are remembered that are read before their trigger; 0: not at all, as all events are in
	// one stream.
	Early time.Duration
	// Scattered means that several streams contain triggers, so that an older trigger may be read after a newer one.
	Scattered bool
	// BeatStreams are the sources of the rule's heartbeats: streams, and "" for pings. A heartbeat counts as missing
	// only if all of them were received without a gap; nil: the rule expects no heartbeats.
	BeatStreams []string
	// Upcoming returns the slot of the rule's next check of a job, for the job's state at the time now. The slot may
	// be past. Zero: unknown. nil: always unknown.
	Upcoming func(j Job, now time.Time) time.Time
	// NamesTimes means that some of its steps have a wall-clock time.
	NamesTimes bool
	// NamesSince means that the start of a job is read from the event, by the sender's clock.
	NamesSince bool
	// ShiftState moves the times in the state of a job by a duration; nil: the state has none.
	ShiftState func(state json.RawMessage, by time.Duration) json.RawMessage
	// Closing drafts the alert that resolves a job's alerts; nil: none is raised.
	Closing func(j Job, text string) alerts.Draft
	// MaxSeverity is the severity of alerts about the check itself, not about the entity.
	MaxSeverity alerts.Severity
}

// labels returns the labels of an alert about a job.
func (r *Rule) labels(j Job) map[string]string {
	if r.Labels == nil {
		return nil
	}
	return r.Labels(j)
}

// Book provides the rules. Implementations are safe for concurrent use.
type Book interface {
	// Rule returns one version of a rule, including older versions. An unreadable version is an error.
	Rule(ctx context.Context, id, version int32) (*Rule, error)
	// Revision returns the revision of the current rule set.
	Revision() int64
	// RuleChangedAt returns the revision of a rule's last change.
	RuleChangedAt(id int32) int64
	// NextSlot returns the first slot after t of any rule; zero: none.
	NextSlot(t time.Time) time.Time
	// CriticalRules returns the rules with a version whose Loudest is critical, in order.
	CriticalRules() []int32
	// Refresh reloads the rules if they changed.
	Refresh(ctx context.Context) error
}

// afterSnooze returns the slot, or the first slot after the job's snooze if that is later.
func (r *Rule) afterSnooze(j Job, slot time.Time) time.Time {
	if slot.Before(j.SnoozedUntil) {
		return r.Grid.Up(j.SnoozedUntil)
	}
	return slot
}

// isSnoozed reports whether a snooze determined the job's next check: the time without the snooze is unknown.
func (r *Rule) isSnoozed(j Job) bool {
	return !j.SnoozedUntil.IsZero() && j.due().Equal(r.Grid.Up(j.SnoozedUntil))
}

// notBeforeNextSlot returns the slot, or the first slot after now if the slot is past.
func (r *Rule) notBeforeNextSlot(slot, now time.Time) time.Time {
	if slot.After(now) {
		return slot
	}
	return r.Grid.After(now)
}
