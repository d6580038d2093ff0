package bus

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"

	own "deadman/internal/subjects"
)

// checkSubject rejects subjects that deadman never reads or publishes on: all subjects at once, the broker's own,
// replies, and deadman's own.
func checkSubject(subject string) error {
	first, _, _ := strings.Cut(subject, ".")
	switch {
	case len(subject) > own.MaxBytes:
		return fmt.Errorf("subject of %d bytes; at most %d", len(subject), own.MaxBytes)
	case !natsserver.IsValidSubject(subject) || strings.ContainsFunc(subject, unprintable):
		return fmt.Errorf("%q is not a subject; write tokens with dots between, such as orders.created", subject)
	case first == ">":
		return fmt.Errorf("%q takes in everything; name at least the first token, such as orders.>", subject)
	case own.OfDeadman(first):
		return fmt.Errorf("%q belongs to deadman; choose another first token", subject)
	case own.OfServers(subject):
		return fmt.Errorf("%q belongs to the broker; choose another first token", subject)
	}
	return nil
}

func unprintable(r rune) bool { return r <= ' ' || r == 0x7f }

// checkLiteral returns ErrSubject for a subject that can't be published on.
func checkLiteral(subject string) error {
	err := checkSubject(subject)
	if err == nil && !natsserver.IsValidLiteralSubject(subject) {
		err = fmt.Errorf("%q has wildcards; publish on one subject", subject)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSubject, err)
	}
	return nil
}

// covers reports whether every message on subject is also on one of the others.
func covers(subject string, others []string) bool {
	for _, o := range others {
		if natsserver.SubjectMatchesFilter(subject, o) {
			return true
		}
	}
	return false
}

// overlaps reports whether a message may be on subject and on one of the others.
func overlaps(subject string, others []string) bool {
	for _, o := range others {
		if natsserver.SubjectsCollide(subject, o) {
			return true
		}
	}
	return false
}

// broadest removes the subjects that others of them include. Only subjects with wildcards include others, so its time does not
// grow with the square of thousands of subjects of rules.
func broadest(subjects []string) []string {
	all := newSubjectSet(subjects)
	var kept []string
	for i, p := range all.patterns {
		if rest := slices.Delete(slices.Clone(all.patterns), i, i+1); !covers(p, rest) {
			kept = append(kept, p)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(all.literals)) {
		if !covers(s, all.patterns) {
			kept = append(kept, s)
		}
	}
	return kept
}

// subjectSet are subjects without repetitions.
type subjectSet struct {
	literals map[string]bool
	patterns []string // with wildcards
}

func newSubjectSet(subjects []string) subjectSet {
	set := subjectSet{literals: make(map[string]bool, len(subjects))}
	for _, s := range subjects {
		switch {
		case !strings.ContainsAny(s, "*>"):
			set.literals[s] = true
		case !slices.Contains(set.patterns, s):
			set.patterns = append(set.patterns, s)
		}
	}
	return set
}

// has reports whether a subject of a message is on one of the subjects.
func (s subjectSet) has(subject string) bool {
	return s.literals[subject] || covers(subject, s.patterns)
}
