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
	reads, err := readsFor(subjects, func(each []string) ([]rules.StreamBinding, error) { return b.bind(ctx, each) })
	return reads, unanswered(err)
}

// Find implements rules.Binder.
func (b *Binder) Find(ctx context.Context, subjects []string) ([]rules.StreamBinding, error) {
	reads, err := readsFor(subjects, func(each []string) ([]rules.StreamBinding, error) {
		found, err := b.find(ctx, each)
		if err != nil {
			return nil, err
		}
		return b.readsOf(ctx, found)
	})
	return reads, unanswered(err)
}

// carried is a subject with the streams that it is read from; none if it has to be captured.
type carried struct {
	subject string
	streams []*jetstream.StreamInfo
}

// find lists the streams once for all subjects.
func (b *Binder) find(ctx context.Context, subjects []string) ([]carried, error) {
	streams, err := b.streams.list(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]carried, len(subjects))
	for i, subject := range subjects {
		found, err := streamsCarrying(subject, streams)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 && !capturable(subject, nil) {
			return nil, fmt.Errorf("%w: %q begins with a wildcard, and no stream has such events; name the first token", rules.ErrSubject, subject)
		}
		all[i] = carried{subject, found}
	}
	return all, nil
}

// bind captures all subjects that no stream takes in by one change of the stream.
func (b *Binder) bind(ctx context.Context, subjects []string) ([]rules.StreamBinding, error) {
	var missing []string
	for range bindTries {
		found, err := b.find(ctx, subjects)
		if err != nil {
			return nil, err
		}
		missing = nil
		for _, c := range found {
			if len(c.streams) == 0 || matchesMore(b.events.Name(), c.subject, c.streams) {
				missing = append(missing, c.subject)
			}
		}
		if missing == nil {
			for _, c := range found {
				b.logUncaptured(c.subject, c.streams)
			}
			return b.readsOf(ctx, found)
		}
		if err := b.events.capture(ctx, missing); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("bind %s: it was added to %s and is missing; another program changes that stream", first(missing), b.events.Name())
}

// readsOf asks each stream for its last sequence, because the list of streams may be stale.
func (b *Binder) readsOf(ctx context.Context, found []carried) (reads []rules.StreamBinding, err error) {
	infos := make(map[string]events.Info)
	for _, c := range found {
		for _, s := range c.streams {
			info, known := infos[s.Config.Name]
			if !known {
				if info, err = b.streams.Info(ctx, s.Config.Name); err != nil {
					return nil, fmt.Errorf("bind %s: %w", c.subject, err)
				}
				infos[s.Config.Name] = info
			}
			read := rules.StreamBinding{Subject: c.subject, Stream: s.Config.Name, From: info.LastSeq, At: info.LastAt, CreatedAt: info.CreatedAt}
			if read.At.IsZero() {
				read.At = info.CreatedAt // later than any message of its predecessor
			}
			reads = append(reads, read)
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
			if risk := LossRisk(s.Config); risk != "" {
				routes[i].Risks = append(routes[i].Risks, fmt.Sprintf("stream %s %s", s.Config.Name, risk))
			}
		}
		routes[i].Capture = err == nil && (len(found) == 0 || matchesMore(b.events.Name(), subject, found))
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

// Lack implements rules.Binder.
func (b *Binder) Lack(ctx context.Context, stream string, subjects []string, since time.Time) (string, error) {
	return b.streams.Lack(ctx, stream, subjects, since)
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
func readsFor(subjects []string, reads func(each []string) ([]rules.StreamBinding, error)) ([]rules.StreamBinding, error) {
	for _, s := range subjects {
		if err := checkSubject(s); err != nil {
			return nil, fmt.Errorf("%w: %w", rules.ErrSubject, err)
		}
	}
	each := slices.Compact(slices.Sorted(slices.Values(subjects)))
	if len(each) == 0 {
		return nil, nil
	}
	return whileThere(func() ([]rules.StreamBinding, error) { return reads(each) })
}
