package rules_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/internal/store"
	"deadman/rules"
)

// expectedKeysRule returns a heartbeat of the keys.
func expectedKeysRule(keys string, more ...string) []byte {
	return []byte("name: nightly\nentity: job\ntrigger: {heartbeat: {every: 1d, keys: [" + keys + "]}}\n" + strings.Join(more, "\n"))
}

// pendingKeys returns the keys of all jobs.
func pendingKeys(t *testing.T, s *store.Store) string {
	t.Helper()
	page, err := s.Jobs(t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, j := range page.Items {
		keys = append(keys, j.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

func TestExpectedKeysHaveJobsFromSave(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	save := func(text []byte) {
		t.Helper()
		if _, err := r.Save(t.Context(), text, "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(keys string) {
		t.Helper()
		if err := r.Catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := r.SyncExpectedKeys(t.Context()); n != 0 || err != nil {
			t.Errorf("SyncExpectedKeys changed %d jobs: %v", n, err)
		}
		if got := pendingKeys(t, s); got != keys {
			t.Errorf("pending jobs of %q, want %q", got, keys)
		}
	}
	save(expectedKeysRule("backup, import"))
	want("backup import")
	save(expectedKeysRule("import, report"))
	want("import report")
	ended, err := s.History(t.Context(), futurejobs.Filter{})
	if err != nil || len(ended.Items) != 1 || ended.Items[0].Key != "backup" || ended.Items[0].Reason != "the rule no longer expects its heartbeats" {
		t.Errorf("history %+v, %v", ended.Items, err)
	}

	// A disabled rule creates no jobs until it is enabled.
	save(expectedKeysRule("import, report, sync", "enabled: false"))
	want("import report")
	save(expectedKeysRule("import, sync"))
	want("import sync")

	// Another node, without any knowledge, finds nothing to do.
	other := newRegistry(b, s)
	if err := other.Catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := other.SyncExpectedKeys(t.Context()); n != 0 || err != nil {
		t.Errorf("another node found %d to do: %v", n, err)
	}
}

// Upkeep completes the sync that a node did not finish after a save, or could not while the rule was paused.
func TestUpkeepSyncsExpectedKeys(t *testing.T) {
	s := openStore(t)
	rule := saveRule(t, s, 0, string(expectedKeysRule("backup, import")))
	r := &rules.Registry{Store: s, Catalog: newCatalog(t, s), Jobs: s, Log: discardLog()}
	pause := func(is bool) {
		t.Helper()
		if err := r.Pause(t.Context(), rule.Name, is); err != nil {
			t.Fatal(err)
		}
		if err := r.Catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	if n, err := r.SyncExpectedKeys(t.Context()); n != 0 || err != nil {
		t.Errorf("SyncExpectedKeys created %d jobs of a paused rule: %v", n, err)
	}
	pause(false)
	if n, err := r.SyncExpectedKeys(t.Context()); n != 2 || err != nil {
		t.Errorf("%d waits began, want 2: %v", n, err)
	}
	if got := pendingKeys(t, s); got != "backup import" {
		t.Errorf("waited for %q", got)
	}
}

// A paused rule ends the jobs of keys that it names no more, and creates the others once it is resumed: also for a key
// that it named again meanwhile.
func TestPausedRuleCreatesNoExpectedJobs(t *testing.T) {
	for name, saves := range map[string]func(text []byte, r *rules.Registry, s *store.Store){
		"by the save": func(text []byte, r *rules.Registry, _ *store.Store) {
			if _, err := r.Save(t.Context(), text, "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
				t.Fatal(err)
			}
		},
		"by the upkeep": func(text []byte, r *rules.Registry, s *store.Store) {
			saveRule(t, s, 0, string(text))
			for range 2 {
				syncExpected(t, r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			_, b := newBroker(t)
			r := newRegistry(b, s)
			save := func(keys, want string) {
				t.Helper()
				saves(expectedKeysRule(keys), r, s)
				if got := pendingKeys(t, s); got != want {
					t.Errorf("pending jobs of %q, want %q", got, want)
				}
			}
			pause := func(is bool) {
				t.Helper()
				if err := r.Pause(t.Context(), "nightly", is); err != nil {
					t.Fatal(err)
				}
			}
			save("backup, import, sync", "backup import sync")
			pause(true)
			save("backup, report", "backup")
			save("backup, import, report", "backup")
			pause(false)
			if n := syncExpected(t, r); n != 2 {
				t.Errorf("%d waits began, want 2", n)
			}
			if got := pendingKeys(t, s); got != "backup import report" {
				t.Errorf("waited for %q, want the keys that are named", got)
			}
		})
	}
}

// syncExpected returns how many jobs upkeep creates and ends.
func syncExpected(t *testing.T, r *rules.Registry) int {
	t.Helper()
	if err := r.Catalog.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := r.SyncExpectedKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A rule without a heartbeat any more reports no missing one. The jobs that move to the new version continue, except
// for the keys that it does not name any more.
func TestRemovedHeartbeatEndsItsJobs(t *testing.T) {
	reported := func(r *rules.Registry, s *store.Store) {
		t.Helper()
		if err := r.Catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		rule, err := r.Catalog.Newest("nightly")
		if err != nil {
			t.Fatal(err)
		}
		beat, err := rule.HeartbeatEffect(rules.ReceivedHeartbeat{Key: "mail", Kind: rules.Success, At: time.Now()}, s.Shards())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: r.Catalog.Revision(), Effects: []futurejobs.Effect{beat}}); err != nil {
			t.Fatal(err)
		}
	}
	const event = "name: nightly\nentity: job\ntrigger: {event: jobs.begun, key: event.id}\nescalate: [{after: 3h}]\n"
	const schedule = "name: nightly\nentity: job\ntrigger: {schedule: '@daily'}\nescalate: [{after: 3h}]\n"
	for name, c := range map[string]struct {
		text    string
		options rules.SaveOptions
		left    string
	}{
		"an event":                 {event, rules.SaveOptions{Version: rules.AnyVersion}, ""},
		"a schedule":               {schedule, rules.SaveOptions{Version: rules.AnyVersion}, ""},
		"an event that takes over": {event, rules.SaveOptions{Version: rules.AnyVersion, Pending: true}, "mail"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			_, b := newBroker(t)
			r := newRegistry(b, s)
			for i, text := range []string{string(expectedKeysRule("backup")), c.text} {
				if i > 0 {
					reported(r, s)
				}
				if _, err := r.Save(t.Context(), []byte(text), "", c.options); err != nil {
					t.Fatal(err)
				}
			}
			if got := pendingKeys(t, s); got != c.left {
				t.Errorf("pending jobs of %q, want %q", got, c.left)
			}
		})
	}
	t.Run("and no node finished it", func(t *testing.T) {
		s := openStore(t)
		saveRule(t, s, 0, string(expectedKeysRule("backup")))
		r := &rules.Registry{Store: s, Catalog: newCatalog(t, s), Jobs: s, Log: discardLog()}
		syncExpected(t, r)
		reported(r, s)
		saveRule(t, s, 0, event)
		if n := syncExpected(t, r); n != 2 || pendingKeys(t, s) != "" {
			t.Errorf("%d waits ended, waited for %q; want the upkeep to end both", n, pendingKeys(t, s))
		}
	})
}

func TestFirstHeartbeatOfExpectedKey(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, string(expectedKeysRule("pump-7")))
	r := &rules.Registry{Store: s, Catalog: newCatalog(t, s), Jobs: s, Log: discardLog()}
	if _, err := r.SyncExpectedKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := s.Jobs(t.Context(), futurejobs.Filter{})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	job := page.Items[0].Job
	job.Since = at("10:00:00")
	job.NextCheckAt = at("23:00:00")
	d := newDevice(t, tenMinuteRule)
	d.job = &job
	d.checkUntil("23:00:00")
	d.heartbeat("23:10:00", rules.ReceivedHeartbeat{})
	d.checkRaised(
		"23:00:00 warning firing: device pump-7: no heartbeat yet, expected every 10m, grace 2m",
		"23:10:00 warning resolved: device pump-7 sent its first heartbeat",
		"23:10:00 resolved: it sent its first heartbeat",
	)
}

// A version with another interval applies to pending jobs, from the last heartbeat.
func TestSavedChangeMovesExpectedJobs(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	var due []time.Time
	for _, every := range []string{"1d", "2h"} {
		text := strings.Replace(string(expectedKeysRule("backup")), "every: 1d", "every: "+every, 1)
		if _, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion, Pending: true}); err != nil {
			t.Fatal(err)
		}
		page, err := s.Jobs(t.Context(), futurejobs.Filter{})
		if err != nil || len(page.Items) != 1 {
			t.Fatal(page, err)
		}
		due = append(due, page.Items[0].NextCheckAt)
	}
	if moved := due[0].Sub(due[1]); moved != 22*time.Hour {
		t.Errorf("due at %s and then at %s", due[0], due[1])
	}
}

// pagedStore is a real store that counts how often the jobs of a rule are read.
type pagedStore struct {
	*store.Store
	walks int
}

func (w *pagedStore) JobsOf(ctx context.Context, ruleID int32, after futurejobs.Ref, limit int) ([]futurejobs.Job, error) {
	w.walks++
	return w.Store.JobsOf(ctx, ruleID, after, limit)
}

// A save that changes nothing reads no job; but if the one before failed before all jobs moved to the new version, it
// moves the rest.
func TestUnchangedSaveReadsNoJobs(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	jobs := &pagedStore{Store: s}
	r := newRegistry(b, s)
	r.Jobs = jobs
	save := func(every string) rules.Change {
		t.Helper()
		text := strings.Replace(string(expectedKeysRule("backup")), "every: 1d", "every: "+every, 1)
		c, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	save("1d")
	if c := save("2h"); c.Moved != 1 {
		t.Errorf("%d jobs continued with the new version, want 1", c.Moved)
	}
	before := jobs.walks
	if save("2h"); jobs.walks != before {
		t.Errorf("a save that changes nothing read the jobs %d times", jobs.walks-before)
	}
	saveRule(t, s, 0, strings.Replace(string(expectedKeysRule("backup")), "every: 1d", "every: 4h", 1)) // by the save that failed then
	if c := save("4h"); c.Changed || c.Moved != 1 {
		t.Errorf("changed: %t, %d jobs continued; want the one that was left", c.Changed, c.Moved)
	}
}

// A key that a schedule no longer names has no job any more.
func TestDroppedKeysOfScheduleEndTheirJobs(t *testing.T) {
	s := openStore(t)
	_, b := newBroker(t)
	r := newRegistry(b, s)
	save := func(keys string) {
		t.Helper()
		text := "name: nightly\nentity: job\ntrigger: {schedule: '@daily', keys: [" + keys + "]}\nescalate: [{after: 1h}]\n"
		if _, err := r.Save(t.Context(), []byte(text), "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
			t.Fatal(err)
		}
		if err := r.Catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	save("backup, import")
	revision, all := r.Catalog.Scheduled()
	due, ok, err := all[0].Due(all[0].From(), time.Now().Add(25*time.Hour))
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := s.Apply(t.Context(), futurejobs.EffectBatch{RuleSet: revision, Effects: due.Effects}); err != nil {
		t.Fatal(err)
	}
	if got := pendingKeys(t, s); got != "backup import" {
		t.Fatalf("the tick began %q", got)
	}
	save("import, report")
	if got := pendingKeys(t, s); got != "import" {
		t.Errorf("waited for %q", got)
	}
	ended, err := s.History(t.Context(), futurejobs.Filter{})
	if err != nil || len(ended.Items) != 1 || ended.Items[0].Key != "backup" || ended.Items[0].Reason != "the rule no longer names its key" {
		t.Errorf("history %+v, %v", ended.Items, err)
	}
}
