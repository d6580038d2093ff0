package bus

import (
	"fmt"
	"slices"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"deadman/rules"
)

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

// matchesMore reports whether the stream of events, own, alone has a part of the subject and can take in all of it.
func matchesMore(own, subject string, found []*jetstream.StreamInfo) bool {
	return len(found) == 1 && found[0].Config.Name == own &&
		!covers(subject, found[0].Config.Subjects) && capturable(subject, found[0].Config.Subjects)
}

// capturable reports whether a stream with subjects can have this one too. The subjects of a stream must not overlap,
// and must not overlap with the broker's own. A subject takes the place of those that it includes.
func capturable(subject string, have []string) bool {
	if strings.HasPrefix(subject, "*") {
		return false
	}
	return covers(subject, have) || !slices.ContainsFunc(have, func(h string) bool {
		return natsserver.SubjectsCollide(h, subject) && !natsserver.SubjectMatchesFilter(h, subject)
	})
}

// withSubjects returns the subjects of a stream with further ones that it can have too.
func withSubjects(have, more []string) []string {
	all := slices.Clone(have)
	for _, subject := range more {
		if covers(subject, all) || !capturable(subject, all) {
			continue
		}
		all = append(slices.DeleteFunc(all, func(h string) bool { return natsserver.SubjectMatchesFilter(h, subject) }), subject)
	}
	return all
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

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}
