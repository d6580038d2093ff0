package replay

import (
	"context"
	"fmt"
	"time"

	"deadman/rules/document"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// ruleSet has the first version of each rule, saved at the start of the replay. Its revision never changes.
type ruleSet []rules.RuleVersion

var _ rules.ChangeReader = ruleSet(nil)

// newRuleSet returns the rules with the ids that an empty node would give them: 1, 2 and so on.
func newRuleSet(documents []document.Document, savedAt time.Time) (ruleSet, error) {
	set := make(ruleSet, len(documents))
	for i, d := range documents {
		canonical, err := d.Canonical()
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", d.Name, err)
		}
		v := rules.RuleVersion{RuleID: int32(i + 1), Version: 1, Name: d.Name, Entity: d.Entity, Document: canonical, SavedAt: savedAt} //nolint:gosec // a count of documents
		for _, subject := range d.Subjects() {
			v.Reads = append(v.Reads, rules.StreamBinding{Subject: subject, Stream: stream})
		}
		set[i] = v
	}
	return set, nil
}

// Revision implements rules.ChangeReader.
func (s ruleSet) Revision(context.Context) (int64, error) { return 1, nil }

// Changes implements rules.ChangeReader.
func (s ruleSet) Changes(_ context.Context, since int64) (rules.Changes, error) {
	if since >= 1 {
		return rules.Changes{Revision: 1}, nil
	}
	return rules.Changes{Revision: 1, All: true, Saved: s}, nil
}

// Version implements rules.ChangeReader.
func (s ruleSet) Version(_ context.Context, ruleID, version int32) (rules.RuleVersion, error) {
	if at := int(ruleID) - 1; at >= 0 && at < len(s) && version == 1 {
		return s[at], nil
	}
	return rules.RuleVersion{}, fmt.Errorf("rule %d version %d: %w", ruleID, version, futurejobs.ErrNotFound)
}

// Calendars implements rules.ChangeReader. A replay has the calendars of a file only.
func (ruleSet) Calendars(context.Context, int64) ([]rules.CalendarVersion, error) { return nil, nil }
