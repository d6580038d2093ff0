package rules

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// Binder finds the streams that store the subjects of a rule, and creates one if necessary. The bus implements it.
type Binder interface {
	// Bind returns the reads for the subjects. A subject that cannot be read, for example one of a work queue, is
	// ErrSubject, with the remedy.
	Bind(ctx context.Context, subjects []string) ([]StreamBinding, error)
	// Find is Bind without creating streams: subjects that no stream stores are left out.
	Find(ctx context.Context, subjects []string) ([]StreamBinding, error)
	// Replay returns the events of a stream on the subjects that it stored at or after since, up to a sequence. After
	// an error it ends.
	Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error]
	// Lack describes the events since a time that a stream has deleted; empty: none. subjects name the stream in the text.
	Lack(ctx context.Context, stream string, subjects []string, since time.Time) (string, error)
	// Routes returns the routes of subjects, in their order.
	Routes(ctx context.Context, subjects []string) ([]SubjectRoute, error)
	// Pending returns the backlog of a stream on a subject after a sequence.
	Pending(ctx context.Context, stream, subject string, after uint64) (StreamBacklog, error)
	// ReadFrom returns the read of a subject from a stream, from its first event after a time.
	ReadFrom(ctx context.Context, subject, stream string, after time.Time) (StreamBinding, error)
}

// missingEvents returns warnings of events since a time that streams have deleted. subjects are those of each stream.
func missingEvents(ctx context.Context, b Binder, subjects map[string][]string, since time.Time) (warnings []string, err error) {
	for _, stream := range slices.Sorted(maps.Keys(subjects)) {
		lack, err := b.Lack(ctx, stream, subjects[stream], since)
		if err != nil {
			return nil, wrapErr("past events", err)
		}
		if lack != "" {
			warnings = append(warnings, lack)
		}
	}
	return warnings, nil
}

// SubjectRoute is the set of streams that store a subject.
type SubjectRoute struct {
	Subject string
	Streams []string // sorted
	Takes   []string // the parts of it that the streams store; nil: all of it
	Risks   []string // why a stream may lose single events before they are read, according to its settings
	Capture bool     // Bind would capture it, in part or as a whole
	Err     error    // ErrSubject, with the remedy; nil: it can be read
}

// StreamBacklog is the backlog of a stream on a subject.
type StreamBacklog struct {
	Gone      bool // the stream does not exist
	CreatedAt time.Time
	Unread    bool       // the stream has events after the sequence
	LastAt    time.Time  // of the last event on the subject; zero: none
	CopyOf    CopiedFrom // the original of the last event, if it is a copy; without a stream: it is none
}

// The errors of changes that the registry refuses.
var (
	// ErrSubject means that events of a subject cannot be read, even after a retry.
	ErrSubject = errors.New("the subject cannot be subscribed to")
	// ErrBundle means that a rule belongs to a bundle of files, and has to be changed there.
	ErrBundle = errors.New("the rule belongs to a bundle of files")
)
