package futurejobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"deadman/alerts"
)

// ErrCursorMoved means that somebody else advanced the cursor of a stream. Nothing was written.
var ErrCursorMoved = errors.New("the stream's cursor was moved by another node")

// ErrJobDue means that a wait which would begin anew is due, and nobody has looked yet. Nothing was
// written.
var ErrJobDue = errors.New("a wait that is due has to be looked at before it begins anew")

// ErrRefused means that the database does not take what a batch would write, now or later,
// because of a value in it. Nothing was written.
var ErrRefused = errors.New("the database does not take it")

// ErrTooSlow means that the database did not write a batch within the time that a transaction has, or did not send a
// page of due jobs within that of a read. Nothing was written or returned; half of it may fit.
var ErrTooSlow = errors.New("it takes longer than a transaction or a read may")

// Cursor is how far a stream was applied.
type Cursor struct {
	Stream          string
	LastSeq         uint64
	LastAt          time.Time // the stream's time of the last event applied
	StreamCreatedAt time.Time // tells a recreated stream
	ReadThrough     time.Time // the database time up to which nothing is pending
	HeardSince      time.Time // since when it is heard without a gap, by the database's time; zero: as far back as matters
	Created         int64     // jobs that this stream's events created
	Lost            int64     // events that the stream lost before they were read, which no alert says yet
	LostSince       time.Time // the stream's time of the last event applied before those
}

// DeadLetter is an event that could not be taken in.
type DeadLetter struct {
	ID     int64
	Event  Event
	Rule   string // empty: no rule's fault
	Part   Part   // of the rule; empty: all of it
	Reason string
	Size   int // bytes of the body where only its start is kept; 0: it is whole
	At     time.Time

	Omitted bool // of a list only: the headers and the body are left out, because they are larger than ListedMost

	Tries       int // how often it was tried again
	LastTriedAt time.Time
}

// DeadLetterReason is how many dead letters there are of one rule and one reason.
type DeadLetterReason struct {
	Rule    string // empty: no rule's fault
	Reason  string
	Letters int64
	Newest  int64 // the id of the newest of them
	At      time.Time
}

// DeadLetterReasons is why events could not be taken in, most letters first.
type DeadLetterReasons struct {
	Reasons []DeadLetterReason
	Letters int64 // that were counted: the newest
	More    bool  // there may be older letters, which were not counted
}

// Deeds of packages that do not know the audit. access.Actions describes them.
const (
	DeedMove  = "job.move"
	DeedRetry = "dead-letter.retry"
)

// EffectBatch is a run of events of one stream, folded into effects.
type EffectBatch struct {
	Stream      string // empty: by hand, no cursor moves
	After       uint64 // where the cursor has to stand
	Last        uint64 // where it moves to
	LastAt      time.Time
	Lost        int64   // events that the stream lost after After and up to Last, at most
	RuleSet     int64   // the revision that was evaluated
	Rules       []int32 // that were evaluated beside those of the effects; see RestsOn
	Effects     []Effect
	DeadLetters []DeadLetter
	AuditAction string // what a person did, for the audit: one of access.Actions, such as job.cancel; empty: nobody did
	Bulk        bool   // the deed is one: it is audited once for each rule, with how many waits of it began

	// Once is the request that the batch carries out; empty: none. What the batch came to is kept with
	// the request in the transaction that writes the batch, and is the answer if it comes again.
	Once string

	// Patient: nothing is written where a wait that would begin anew is due; that is ErrDue.
	Patient bool

	// Known are streams whose events the effects know of up to a sequence: their cursors have
	// to stand there. Only of a batch by hand.
	Known map[string]uint64

	// Letter is the dead letter that the batch is another try of; nil: of none. It goes with
	// what is applied. Where its rule refuses the event again it stays, with the new reason.
	Letter *DeadLetter
}

// OfReaders reports whether the batch rests on all rules that read its stream: it is a run of events of the
// broker, which may be for any of them. A stream of the broker has no slash in its name.
func (b EffectBatch) OfReaders() bool { return b.Stream != "" && !strings.Contains(b.Stream, "/") }

// RestsOn returns the rules that the batch rests on where it is not OfReaders, sorted: they have to be as they
// were at RuleSet.
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

// ApplyResult is what a batch came to.
type ApplyResult struct {
	EffectCounts
	Said   []alerts.Alert
	Stood  []int  // places of the effects of a deed that would begin a wait for a key that is waited for
	Over   []int  // places of the effects of a deed that would begin a job for which a quota has no room
	Before bool   // it came to that before, under the batch's Once; nothing was written now
	Again  string // why the batch's Letter stays; empty: it went, or there was none
}

// EffectStore is where events become jobs. Implementations are safe for concurrent use.
type EffectStore interface {
	// Cursor returns where a stream stands; ok is false when it was never read.
	Cursor(ctx context.Context, stream string) (c Cursor, ok bool, err error)
	// OpenCursor starts reading a stream after c.LastSeq, unless it has a cursor; that one
	// learns c.StreamCreatedAt if it did not know it.
	OpenCursor(ctx context.Context, c Cursor) error
	// Apply locks the jobs that the batch names, folds its effects with Fold, and writes
	// the net effect, the dead letters and the cursor in one transaction; a deed is audited,
	// once for each effect or, in bulk, for each rule. It returns ErrMoved where a cursor stands elsewhere, ErrDue,
	// ErrRulesChanged, ErrRefused, ErrTooSlow, or ErrNotFound where the batch's Letter is gone, having
	// written nothing.
	Apply(ctx context.Context, b EffectBatch) (ApplyResult, error)
	// HoldOff keeps changes of the rules that read a stream waiting until the next batch of it is applied, or
	// for a moment. What is evaluated after it stands until then.
	HoldOff(ctx context.Context, stream string) error
	// ResetCursor puts to in the place of old, which the cursor has to equal in LastSeq and
	// StreamCreatedAt; otherwise it returns ErrMoved. It sets LastSeq, LastAt and
	// StreamCreatedAt, and leaves ReadThrough and Created alone. It serves a stream that was
	// recreated.
	ResetCursor(ctx context.Context, old, to Cursor) error
	// JobsOf returns up to limit pending jobs of a rule, by (shard, key), after a ref. The
	// rule may be deleted.
	JobsOf(ctx context.Context, ruleID int32, after Ref, limit int) ([]Job, error)
	// MarkRead records that nothing of the stream was pending at the instant through.
	// It returns ErrMoved when the cursor does not stand at seq.
	MarkRead(ctx context.Context, stream string, seq uint64, through time.Time) error
	// ReportLost writes the alert of n lost events, which the cursor's Lost counts, and counts them
	// no longer, in one transaction. said is false where it counts fewer: another node wrote it.
	ReportLost(ctx context.Context, stream string, n int64, r alerts.SystemAlert) (a alerts.Alert, said bool, err error)
	// RecordGap records that what comes by a stream is heard since an instant, and was not all the
	// while before. It is recorded before MarkRead tells of that time.
	RecordGap(ctx context.Context, stream string, since time.Time) error
}
