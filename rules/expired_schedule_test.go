package rules_test

import (
	"slices"
	"testing"
	"time"

	"deadman/rules"
)

// A schedule that is over when the rule is saved is a warning, once, and no reason to refuse it.
func TestSaveWarnsOfExpiredSchedule(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	r.Now = func() time.Time { return clockTime(12, 0) }
	for _, c := range []struct {
		name, schedule string
		want           []string
	}{
		{"past", "@at 2026-01-01T00:00:00Z", []string{"schedule: @at 2026-01-01T00:00:00Z is over, so the rule never ticks; write a time to come, or a crontab"}},
		{"past", "@at 2026-01-01T00:00:00Z", nil}, // a change of nothing
		{"to-come", "@at 2126-01-01T00:00:00Z", nil},
		{"again", "@daily", nil},
	} {
		text := "name: " + c.name + "\nentity: import\ntrigger: {schedule: '" + c.schedule + "'}\nescalate: [{after: 1h}]\n"
		change, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion})
		if err != nil || !slices.Equal(change.Warnings, c.want) {
			t.Errorf("%s: %q, %v", c.schedule, change.Warnings, err)
		}
	}
}
