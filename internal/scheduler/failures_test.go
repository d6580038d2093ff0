package scheduler_test

import (
	"slices"
	"strings"
	"testing"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/scheduler"
	"deadman/internal/store"
	"deadman/internal/store/storetest"
	"deadman/rules"
)

// Ticks of a rule that cannot be applied are alerted once, by several nodes, and again when they are applied.
func TestFailedTicksAreAlerted(t *testing.T) {
	t.Parallel()
	w := newFixture(t, store.Options{DataDir: storetest.DataDir(t), Shards: 4})
	w.rule = w.save(`
name: office-import
entity: import
trigger: {schedule: "@every 30s", keys: [customers]}
escalate: [{after: 1h, within: office}]
again: keep
`)
	known, err := calendars.Parse([]byte("calendars:\n  office: {zone: UTC, hours: \"09:00-17:00\"}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	run := func(known calendars.Set) (ticker *scheduler.Scheduler, stop func()) {
		catalog := rules.NewCatalog(w.store, w.store.Shards())
		catalog.Calendars = known
		if err := catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w.lateTicker(catalog)
	}
	for range 2 {
		ticker, stop := run(calendars.Set{})
		w.eventually("its ticks fail", func() bool { return slices.Equal(ticker.Failing(), []string{"office-import"}) && len(w.raised()) > 0 })
		stop()
	}
	if all := w.raised(); len(all) != 1 || all[0].Status != alerts.Firing || all[0].Key != "rule/office-import" || !strings.Contains(all[0].Text, `unknown calendar "office"`) {
		t.Errorf("raised: %+v", all)
	}
	ticker, _ := run(known)
	w.eventually("the alert is closed", func() bool { return len(w.raised()) == 2 })
	all := w.raised()
	if again := all[1]; again.Status != alerts.Resolved || !slices.Equal(again.Closes, []alerts.ID{all[0].ID}) || len(ticker.Failing()) > 0 || len(w.jobs()) != 1 {
		t.Errorf("raised: %+v; failing %v; %d jobs", again, ticker.Failing(), len(w.jobs()))
	}
}
