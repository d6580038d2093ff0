package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"deadman/internal/events"
	"deadman/rules"
)

// bindTries bounds the searches of the streams, because streams may change meanwhile.
const bindTries = 3

var _ rules.Binder = (*Bus)(nil)

// Bind implements rules.Binder. It returns one binding per subject and stream, with From as the stream's current last
// sequence. A subject without a stream is added to DEADMAN_EVENTS.
func (b *Bus) Bind(ctx context.Context, subjects []string) ([]rules.StreamBinding, error) {
	reads, err := readsFor(subjects, func(s string) ([]rules.StreamBinding, error) {
		return whileThere(func() ([]rules.StreamBinding, error) { return b.bind(ctx, s) })
	})
	return reads, unanswered(err)
}

// Find implements rules.Binder.
func (b *Bus) Find(ctx context.Context, subjects []string) ([]rules.StreamBinding, error) {
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

// subjectsOverlap is the error code of NATS if another stream has the subject already.
const subjectsOverlap jetstream.ErrorCode = 10065

// whileThere repeats a search of the streams if a stream was deleted after it was found, or created before its
// subject was captured.
func whileThere(look func() ([]rules.StreamBinding, error)) (reads []rules.StreamBinding, err error) {
	for range bindTries {
		reads, err = look()
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

// find returns the streams that a subject is read from, or none if the subject has to be captured.
func (b *Bus) find(ctx context.Context, subject string) ([]*jetstream.StreamInfo, error) {
	streams, err := b.streams(ctx)
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

func (b *Bus) bind(ctx context.Context, subject string) ([]rules.StreamBinding, error) {
	for range bindTries {
		found, err := b.find(ctx, subject)
		if err != nil {
			return nil, err
		}
		if len(found) > 0 && !matchesMore(subject, found) {
			b.sayUncaptured(subject, found)
			return b.readsOf(ctx, subject, found)
		}
		if err := b.capture(ctx, subject); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("bind %s: it was added to %s and is not there; somebody else changes that stream", subject, EventsStream)
}

// streams lists all streams except the broker's buckets and the stream of alerts.
func (b *Bus) streams(ctx context.Context) ([]*jetstream.StreamInfo, error) {
	var all []*jetstream.StreamInfo
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	ctx, done := b.withConnection(ctx, "$JS.API.STREAM.LIST")
	defer done()
	list := b.js.ListStreams(ctx)
	for info := range list.Info() {
		if info.Config.Name != AlertsStream && !strings.HasPrefix(first(info.Config.Subjects), "$") {
			all = append(all, info)
		}
	}
	if err := list.Err(); err != nil {
		return nil, unanswered(fmt.Errorf("list streams: %w", noAnswerError(ctx, err)))
	}
	return all, nil
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// streamsCarrying returns the streams that a subject is read from:
//
// 1. streams with limits retention that take the subject in
// 2. in place of a stream with another retention, the streams that source or mirror it
// 3. if no stream takes the subject in, copies of streams in other accounts or domains
func streamsCarrying(subject string, streams []*jetstream.StreamInfo) ([]*jetstream.StreamInfo, error) {
	var found []*jetstream.StreamInfo
	direct := false
	for _, s := range streams {
		if !overlaps(subject, s.Config.Subjects) {
			continue
		}
		direct = true
		if tr := s.Config.SubjectTransform; tr != nil && (tr.Source == "" || overlaps(subject, []string{tr.Source})) {
			return nil, fmt.Errorf("%w: stream %s stores %s under another subject (its subject_transform to %s); let a stream with limits retention take it in as it is",
				rules.ErrSubject, s.Config.Name, subject, tr.Destination)
		}
		if s.Config.Retention == jetstream.LimitsPolicy {
			found = append(found, s)
			continue
		}
		copies := copiesOf(s.Config.Name, subject, streams)
		if len(copies) == 0 {
			return nil, fmt.Errorf("%w: stream %s has %s with %s retention, which deletes what was consumed; add a stream with limits retention that sources %s, or let it republish to another subject and name that",
				rules.ErrSubject, s.Config.Name, subject, strings.ToLower(s.Config.Retention.String()), s.Config.Name)
		}
		found = append(found, copies...)
	}
	if !direct {
		found = foreignCopies(subject, streams)
	}
	return distinct(found), nil
}

// copiesOf returns the streams with limits retention that source or mirror a stream.
func copiesOf(origin, subject string, streams []*jetstream.StreamInfo) []*jetstream.StreamInfo {
	var found []*jetstream.StreamInfo
	for _, s := range streams {
		for _, src := range origins(s) {
			if s.Config.Retention == jetstream.LimitsPolicy && src.Name == origin && src.External == nil && passes(src, subject) {
				found = append(found, s)
			}
		}
	}
	return found
}

// foreignCopies returns the streams with limits retention that filter the subject out of a stream of another account
// or domain.
func foreignCopies(subject string, streams []*jetstream.StreamInfo) []*jetstream.StreamInfo {
	var found []*jetstream.StreamInfo
	for _, s := range streams {
		for _, src := range origins(s) {
			if s.Config.Retention == jetstream.LimitsPolicy && src.External != nil && src.FilterSubject != "" && passes(src, subject) {
				found = append(found, s)
			}
		}
	}
	return found
}

// carries reports whether a stream receives messages on the subject.
func carries(s *jetstream.StreamInfo, subject string) bool {
	return overlaps(subject, s.Config.Subjects) ||
		slices.ContainsFunc(origins(s), func(src *jetstream.StreamSource) bool { return passes(src, subject) })
}

func origins(s *jetstream.StreamInfo) []*jetstream.StreamSource {
	if s.Config.Mirror != nil {
		return []*jetstream.StreamSource{s.Config.Mirror}
	}
	return s.Config.Sources
}

// passes reports whether a source passes messages on under the same subject.
func passes(src *jetstream.StreamSource, subject string) bool {
	return len(src.SubjectTransforms) == 0 &&
		(src.FilterSubject == "" || overlaps(subject, []string{src.FilterSubject}))
}

func distinct(streams []*jetstream.StreamInfo) []*jetstream.StreamInfo {
	slices.SortFunc(streams, func(a, b *jetstream.StreamInfo) int { return strings.Compare(a.Config.Name, b.Config.Name) })
	return slices.CompactFunc(streams, func(a, b *jetstream.StreamInfo) bool { return a.Config.Name == b.Config.Name })
}

// matchesMore reports whether DEADMAN_EVENTS alone has a part of the subject and can take in all of it.
func matchesMore(subject string, found []*jetstream.StreamInfo) bool {
	return len(found) == 1 && found[0].Config.Name == EventsStream &&
		!covers(subject, found[0].Config.Subjects) && capturable(subject, found[0].Config.Subjects)
}

// capturable reports whether a stream with subjects can have this one too. The subjects of a stream must not overlap,
// and must not overlap with the broker's own.
func capturable(subject string, have []string) bool {
	return !strings.HasPrefix(subject, "*") && disjoint(broadest(append(slices.Clone(have), subject)))
}

// readsOf asks each stream for its last sequence, because the list of streams may be stale.
func (b *Bus) readsOf(ctx context.Context, subject string, found []*jetstream.StreamInfo) ([]rules.StreamBinding, error) {
	reads := make([]rules.StreamBinding, len(found))
	for i, s := range found {
		info, err := b.Info(ctx, s.Config.Name)
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

// sayUncaptured logs that streams take in only a part of a wildcard.
func (b *Bus) sayUncaptured(subject string, found []*jetstream.StreamInfo) {
	if taken := capturedPart(subject, found); taken != nil {
		b.log.Warn("streams take in only a part of a subject; the rest is not heard", "subject", subject, "streams_take", taken)
	}
}

// capturedPart returns the subjects of streams that take in only a part of a subject. It returns nil if they take in
// all of it or none.
func capturedPart(subject string, found []*jetstream.StreamInfo) []string {
	var taken []string
	for _, s := range found {
		taken = append(taken, s.Config.Subjects...)
		for _, src := range origins(s) {
			taken = append(taken, src.FilterSubject)
		}
	}
	taken = slices.DeleteFunc(taken, func(s string) bool { return s == "" || !overlaps(subject, []string{s}) })
	if len(taken) == 0 || covers(subject, taken) {
		return nil
	}
	return taken
}
