package events

import (
	"context"
	"fmt"
	"slices"
)

// subscription holds the subjects of a line, and the revision of the rules that they are from.
type subscription struct {
	in       *Intake
	line     string
	subjects []string
	revision int64
	suspect  bool // a rule of the line changed; the cursor may have moved for a rule that joined the line
}

// newSubscription returns the current subjects of a line.
func newSubscription(in *Intake, line string) subscription {
	s := subscription{in: in, line: line}
	s.revision = in.Catalog.Revision() // before the subjects, so that the subjects are never older
	s.subjects = subjectsOf(in.Catalog, line)
	return s
}

// check keeps the subjects in line with the rules: a reader of other subjects could move the cursor past events for a
// new rule. It returns errReopenReader if the subjects changed.
func (s *subscription) check() error {
	revision := s.in.Catalog.Revision()
	if revision == s.revision {
		return nil
	}
	if !slices.Equal(s.subjects, subjectsOf(s.in.Catalog, s.line)) {
		return errReopenReader
	}
	s.suspect = s.suspect || s.in.Catalog.ChangedAt(s.line) > s.revision
	s.revision = revision
	return nil
}

// checkCursor returns errReopenReader if the stored cursor moved from a sequence, after a change of the line's rules: a
// rule that joined the line may have moved it back, with unread events for this rule alone.
func (s *subscription) checkCursor(ctx context.Context, lastSeq uint64) error {
	if !s.suspect {
		return nil
	}
	c, ok, err := s.in.Store.Cursor(ctx, s.line)
	if err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	if !ok || c.LastSeq != lastSeq {
		return errReopenReader
	}
	s.suspect = false
	return nil
}

func subjectsOf(b Matcher, line string) []string {
	return slices.Compact(slices.Sorted(slices.Values(b.SubjectsByStream()[line])))
}
