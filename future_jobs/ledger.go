package futurejobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
)

// ErrCursorMoved means that another node advanced the cursor of a stream. Nothing was written.
var ErrCursorMoved = errors.New("the stream's cursor was moved by another node")

// ErrJobDue means that a job to be restarted by an effect is due and not yet checked. Nothing was written.
var ErrJobDue = errors.New("a due job has to be checked before it is restarted")

// ErrRefused means that the database refuses a batch, now and later, because of a value in it. Nothing was written.
var ErrRefused = errors.New("the database refuses a value")

// ErrTooSlow means that the database did not write a batch within the transaction time, or did not send a page of due
// jobs within the read time. Nothing was written or returned; half of it may succeed.
var ErrTooSlow = errors.New("the transaction or the read takes too long")

// Cursor is the position up to which a stream was applied.
type Cursor struct {
	Stream          string // or its tenants' line
	LastSeq         uint64
	LastAt          time.Time // the stream's time of the last applied event
	StreamCreatedAt time.Time // identifies a recreated stream
	ReadThrough     time.Time // the database time up to which no event is pending
	ReceivingSince  time.Time // start of the current gap-free period, by the database's time; zero: no gap matters
	Created         int64     // jobs created by events of this stream
	Lost            int64     // events that the stream lost before they were read, and that no alert reports yet
	LostSince       time.Time // the stream's time of the last event applied before the lost ones
}

// Audit actions of packages that do not import the audit log. access.Actions describes them.
const (
	ActionMove  = "job.move"
	ActionRetry = "dead-letter.retry"
)

// EffectBatch is a run of events of one stream, folded into effects.
type EffectBatch struct {
	Stream      string // or its tenants' line; empty: by hand, no cursor moves
	After       uint64 // the cursor's position before the batch
	Last        uint64 // the cursor's position after the batch
	LastAt      time.Time
	Lost        int64   // events that the stream lost between After and Last, at most
	RuleSet     int64   // the revision that the effects are based on
	Rules       []int32 // rules evaluated in addition to those of the effects; see RestsOn
	Effects     []Effect
	DeadLetters []DeadLetter
	AuditAction string // a person's action for the audit log: one of access.Actions, such as job.cancel; empty: none
	Bulk        bool   // the action is one: it is audited once for each rule, with the number of jobs that began

	// RequestID is the id of the request that the batch carries out; empty: none. The result is stored with the request in
	// the transaction that writes the batch, and is returned if the request is repeated.
	RequestID string

	// FailIfDue makes Apply write nothing and return ErrJobDue if an effect would restart a job that is due.
	FailIfDue bool

	// ReadTo maps streams to sequences that the effects depend on: the cursors of the streams have to be there. It is
	// set for batches by hand only.
	ReadTo map[string]uint64

	// Tick is recorded with the batch, once for its rule and nominal time; nil: none. RuleID is that of the batch's Stream.
	Tick *AppliedTick

	// Letter is the dead letter that the batch retries; nil: none. It is deleted if the retry is applied. If its rule
	// refuses the event again, the letter stays with the new reason.
	Letter *DeadLetter
}

// OfReaders reports whether the batch depends on all rules that read its stream: it is a run of events of the broker,
// and each may match any of them. The cursors of ticks and expected keys have a slash in their names, as tenants' lines
// have.
func (b EffectBatch) OfReaders() bool {
	return b.Stream != "" && (IsTenantsLine(b.Stream) || !strings.Contains(b.Stream, "/"))
}

// RestsOn returns the rules that the batch depends on if it is not OfReaders, sorted: they have to be unchanged since
// RuleSet.
func (b EffectBatch) RestsOn() []int32 {
	if b.OfReaders() {
		return nil
	}
	rules := slices.Clone(b.Rules)
	last := int32(-1)
	for i := range b.Effects {
		if id := b.Effects[i].Ref.RuleID; id != last {
			rules, last = append(rules, id), id
		}
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// ApplyResult is the result of a batch.
type ApplyResult struct {
	EffectCounts
	Alerts         []alerts.Alert
	AlreadyPending []int // indexes of the effects that would begin a job for a key with a pending job, of an action by hand
	Over           []int // indexes of the effects that would begin a job beyond a quota, of an action by hand
	Repeated       bool  // the batch's RequestID was carried out before; nothing was written now
	// Summarized is the number of refused events that have no dead letter of their own, but are counted in summaries.
	Summarized   int64
	RefusedAgain string         // the reason why the batch's Letter stays; empty: it was deleted, or there was none
	RefusedBy    map[string]int // refusals of the batch's effects, by the name of the rule; nil: none
}

// Cursors keeps how far each stream is applied and read. Implementations are safe for concurrent use.
type Cursors interface {
	// Cursor returns the position of a stream; ok is false if the stream was never read.
	Cursor(ctx context.Context, stream string) (c Cursor, ok bool, err error)
	// OpenCursor starts reading a stream after c.LastSeq. If the stream has a cursor already, only a missing
	// StreamCreatedAt is set.
	OpenCursor(ctx context.Context, c Cursor) error
	// ResetCursor replaces the cursor old by to, for a stream that was recreated. It returns ErrCursorMoved unless
	// the cursor equals old in LastSeq and StreamCreatedAt. It sets LastSeq, LastAt and StreamCreatedAt, and keeps
	// ReadThrough and Created.
	ResetCursor(ctx context.Context, old, to Cursor) error
	// MarkRead records that no event of the stream was pending at the time through. It returns ErrCursorMoved if the
	// cursor is not at seq.
	MarkRead(ctx context.Context, stream string, seq uint64, through time.Time) error
	// RecordGap records that the stream was received without gaps only since the given time. It is recorded before
	// MarkRead covers that time.
	RecordGap(ctx context.Context, stream string, since time.Time) error
	// ReportLost writes the alert of n lost events and subtracts them from the cursor's Lost, in one transaction.
	// raised is false if Lost is lower: another node wrote the alert.
	ReportLost(ctx context.Context, stream string, n int64, r alerts.SystemAlert) (a alerts.Alert, raised bool, err error)
}

// EffectStore applies events to jobs. Implementations are safe for concurrent use.
type EffectStore interface {
	Cursors
	// Apply locks the jobs of the batch, folds its effects with Fold, and writes the net effect, the dead letters, the
	// tick and the cursor in one transaction. Dead letters beyond the store's limits are summarized. Actions by hand are
	// audited, once for each effect or, in bulk, for each rule. It returns ErrCursorMoved if a cursor is at another
	// position, ErrJobDue, ErrRulesChanged, ErrRefused, ErrTooSlow, or ErrNotFound if the batch's Letter is gone; nothing is
	// written then.
	Apply(ctx context.Context, b EffectBatch) (ApplyResult, error)
	// HoldOff delays changes of the rules that read a stream until its next batch is applied, or for a moment. Rules
	// evaluated after HoldOff stay valid until then.
	HoldOff(ctx context.Context, stream string) error
	// JobsOf returns up to limit pending jobs of a rule, by (shard, key), after a ref. The rule may be deleted.
	JobsOf(ctx context.Context, ruleID int32, after Ref, limit int) ([]Job, error)
}
