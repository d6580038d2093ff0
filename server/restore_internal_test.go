package server

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"deadman/alerts"
	"deadman/internal/store"
	"deadman/rules"
)

// The restore condition is met after a successful comparison, and fails before.
func TestNodeReportsMissingComparison(t *testing.T) {
	t.Parallel()
	c := comparison{log: slog.New(slog.DiscardHandler)}
	if got := c.condition(); got.OK || !strings.Contains(got.Detail, "after the start of the node") {
		t.Errorf("before the first comparison: %+v", got)
	}
	silent := errors.New("the broker does not answer")
	c.note(silent)
	if got := c.condition(); got.OK || !errors.Is(got.Err, silent) {
		t.Errorf("after one that failed: %+v", got)
	}
	c.note(nil)
	if got := c.condition(); !got.OK {
		t.Errorf("after one that succeeded: %+v", got)
	}
	c.note(silent)
	if got := c.condition(); got.OK {
		t.Errorf("after a later one that failed: %+v", got)
	}
}

// An alert that retention may have deleted is not unknown: by the setting of the node, or by the rule's own period.
func TestAlertsBeyondRetentionAreNotUnknown(t *testing.T) {
	t.Parallel()
	s, err := store.Open(t.Context(), store.Options{DataDir: t.TempDir(), Shards: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, keep := range map[string]string{"brief": "keep: {alerts: 1d}\n", "usual": ""} {
		documents, err := rules.Parse([]byte("name: "+name+"\nentity: order\ntrigger: {event: a, key: event.id}\nescalate: [{after: 1h}]\n"+keep), name)
		if err != nil {
			t.Fatal(err)
		}
		document, err := documents[0].Canonical()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(t.Context(), rules.RuleVersion{Name: name, Entity: "order", Document: document}, rules.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	c := comparison{store: s, catalog: rules.NewCatalog(s, 1), now: func() time.Time { return now }, keep: 90 * 24 * time.Hour}
	if err := c.catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct {
		rule string
		age  time.Duration
		want int
	}{{"brief", time.Hour, 1}, {"brief", 30 * time.Hour, 0}, {"usual", 30 * time.Hour, 1}, {"usual", 91 * 24 * time.Hour, 0}, {"gone", 30 * time.Hour, 1}} {
		at := now.Add(-a.age)
		id := alerts.Decision{JobID: 1, CreatedAt: at, Status: alerts.Firing, At: at}.ID()
		unknown, err := c.unknown(t.Context(), []alerts.Alert{identity(alerts.Alert{ID: id, Rule: a.rule, Entity: "order", Key: "k"})})
		if err != nil || len(unknown) != a.want {
			t.Errorf("%d alerts of rule %s, %s old, are unknown, want %d: %v", len(unknown), a.rule, a.age, a.want, err)
		}
	}
}
