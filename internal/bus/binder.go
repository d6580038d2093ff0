package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	futurejobs "deadman/future_jobs"
	"deadman/internal/events"
	"deadman/rules"
)

// bindTries bounds the searches of the streams, because streams may change meanwhile.
const bindTries = 3

var _ rules.Binder = (*Binder)(nil)

// Binder finds the streams of subjects, and captures subjects that no stream takes in.
type Binder struct {
	conn    *Conn
	streams *Streams
	events  *StreamOfEvents
}

// Bind implements rules.Binder. It returns one binding per subject and stream, with From as the stream's current last
// sequence. A subject without a stream is added to DEADMAN_EVENTS.
func (b *Binder) Bind(ctx context.Context, subjects []string) ([]rules.StreamBinding, error) {
	reads, err := readsFor(subjects, func(s string) ([]rules.StreamBinding, error) {
		return whileThere(func() ([]rules.StreamBinding, error) { return b.bind(ctx, s) })
	})
	return reads, unanswered(err)
}

// Find implements rules.Binder.
func (b *Binder) Find(ctx context.Context, subjects []string) ([]rules.StreamBinding, error) {
	reads, err := readsFor(subjects, func(s string) ([]rules.StreamBinding, error) {
		return whileThere(func() ([]rules.StreamBinding, error) {
			found, err := b.find(ctx, s)
			if err != nil {
				return nil, err
			}
			return b.readsOf(ctx, s, found)
		})
	})
	return reads, unanswered(err)
}

// find returns the streams that a subject is read from, or none if the subject has to be captured.
func (b *Binder) find(ctx context.Context, subject string) ([]*jetstream.StreamInfo, error) {
	streams, err := b.streams.list(ctx)
	if err != nil {
		return nil, err
	}
	found, err := streamsCarrying(subject, streams)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && !capturable(subject, nil) {
		return nil, fmt.Errorf("%w: %q begins with a wildcard, and no stream has such events; name the first token", rules.ErrSubject, subject)
	}
	return found, nil
}

func (b *Binder) bind(ctx context.Context, subject string) ([]rules.StreamBinding, error) {
	for range bindTries {
		found, err := b.find(ctx, subject)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && !matchesMore(subject, found) {
			b.logUncaptured(subject, found)
			return b.readsOf(ctx, subject, found)
		}
		if err := b.events.capture(ctx, subject); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("bind %s: it was added to %s and is missing; another program changes that stream", subject, EventsStream)
}

// readsOf asks each stream for its last sequence, because the list of streams may be stale.
func (b *Binder) readsOf(ctx context.Context, subject string, found []*jetstream.StreamInfo) ([]rules.StreamBinding, error) {
	reads := make([]rules.StreamBinding, len(found))
	for i, s := range found {
		info, err := b.streams.Info(ctx, s.Config.Name)
		if err != nil {
			return nil, fmt.Errorf("bind %s: %w", subject, err)
		}
		reads[i] = rules.StreamBinding{Subject: subject, Stream: s.Config.Name, From: info.LastSeq, At: info.LastAt, CreatedAt: info.CreatedAt}
		if reads[i].At.IsZero() {
			reads[i].At = info.CreatedAt // later than any message of its predecessor
		}
	}
	return reads, nil
}

// logUncaptured logs that streams capture only a part of a wildcard.
func (b *Binder) logUncaptured(subject string, found []*jetstream.StreamInfo) {
	if taken := capturedPart(subject, found); taken != nil {
		b.conn.log.Warn("streams capture only a part of a subject; the rest is not received", "subject", subject, "streams_take", taken)
	}
}

// Routes implements rules.Binder. It lists the streams once for all subjects.
func (b *Binder) Routes(ctx context.Context, subjects []string) ([]rules.SubjectRoute, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	streams, err := b.streams.list(ctx)
	if err != nil {
		return nil, err
	}
	routes := make([]rules.SubjectRoute, len(subjects))
	for i, subject := range subjects {
		found, err := streamsCarrying(subject, streams)
		routes[i] = rules.SubjectRoute{Subject: subject, Err: err}
		for _, s := range found {
			routes[i].Streams = append(routes[i].Streams, s.Config.Name)
			if risk := riskOf(s.Config); risk != "" {
				routes[i].Risks = append(routes[i].Risks, fmt.Sprintf("stream %s %s", s.Config.Name, risk))
			}
		}
		routes[i].Capture = err == nil && (len(found) == 0 || matchesMore(subject, found))
		if !routes[i].Capture {
			routes[i].Takes = capturedPart(subject, found)
		}
	}
	return routes, nil
}

// Pending implements rules.Binder. It asks the stream's leader, because only the leader has all messages.
func (b *Binder) Pending(ctx context.Context, stream, subject string, after uint64) (rules.StreamBacklog, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := b.streams.leaderInfo(ctx, stream)
	if errors.Is(err, events.ErrGone) {
		return rules.StreamBacklog{Gone: true}, nil
	}
	if err != nil {
		return rules.StreamBacklog{}, err
	}
	rest := rules.StreamBacklog{CreatedAt: createdAt(info)}
	next, err := b.streams.next(ctx, stream, subject, after+1)
	if err != nil {
		return rest, err
	}
	rest.Unread = next.Seq > 0
	last, err := b.streams.last(ctx, stream, subject)
	if err != nil || last.Seq == 0 {
		return rest, err
	}
	rest.LastAt = last.Time.UTC().Truncate(time.Microsecond)
	rest.CopyOf, err = last.copyOf()
	return rest, err
}

// ReadFrom implements rules.Binder. From is as close to the first event as possible, to read little again.
func (b *Binder) ReadFrom(ctx context.Context, subject, stream string, after time.Time) (rules.StreamBinding, error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	info, err := b.streams.leaderInfo(ctx, stream)
	if err != nil {
		return rules.StreamBinding{}, err
	}
	read := rules.StreamBinding{Subject: subject, Stream: stream, From: info.State.LastSeq, At: after, CreatedAt: createdAt(info)}
	earlier, err := b.streams.before(ctx, info, after)
	if err != nil {
		return read, err
	}
	first, err := b.streams.next(ctx, stream, subject, earlier+1)
	if err == nil && first.Seq > 0 {
		read.From = min(read.From, first.Seq-1)
	}
	return read, err
}

// Replay implements rules.Binder.
func (b *Binder) Replay(ctx context.Context, stream string, subjects []string, since time.Time, through uint64) iter.Seq2[futurejobs.Event, error] {
	return b.streams.Replay(ctx, stream, subjects, since, through)
}

// subjectsOverlap is the error code of NATS if another stream has the subject already.
const subjectsOverlap jetstream.ErrorCode = 10065

// whileThere repeats a search of the streams if a stream was deleted after it was found, or created before its
// subject was captured.
func whileThere(read func() ([]rules.StreamBinding, error)) (reads []rules.StreamBinding, err error) {
	for range bindTries {
		reads, err = read()
		var api *jetstream.APIError
		if isThere := errors.As(err, &api) && api.ErrorCode == subjectsOverlap; !isThere && !errors.Is(err, events.ErrGone) {
			break
		}
	}
	return reads, err
}

// readsFor returns the bindings of all subjects. It resolves each subject once.
func readsFor(subjects []string, reads func(subject string) ([]rules.StreamBinding, error)) ([]rules.StreamBinding, error) {
	for _, s := range subjects {
		if err := checkSubject(s); err != nil {
			return nil, fmt.Errorf("%w: %w", rules.ErrSubject, err)
		}
	}
	var all []rules.StreamBinding
	for _, s := range slices.Compact(slices.Sorted(slices.Values(subjects))) {
		got, err := reads(s)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}
