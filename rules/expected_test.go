package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	futurejobs "deadman/future_jobs"
	"deadman/rules"
	"deadman/store"
)

// expecting is a heartbeat of the keys.
func expecting(keys string, more ...string) []byte {
	return []byte("name: nightly\nentity: job\ntrigger: {heartbeat: {every: 1d, keys: [" + keys + "]}}\n" + strings.Join(more, "\n"))
}

// waitedFor are the keys of all jobs.
func waitedFor(t *testing.T, s *store.Store) string {
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

func TestExpectedKeysAreWaitedForFromTheSave(t *testing.T) {
	s := opened(t)
	_, b := broker(t)
	r := registry(b, s)
	save := func(text []byte) {
		t.Helper()
		if _, err := r.Save(t.Context(), text, "", rules.SaveOptions{Version: rules.AnyVersion}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(keys string) {
		t.Helper()
		if err := r.Book.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Expect(t.Context()); n != 0 || err != nil {
			t.Errorf("upkeep found %d to do: %v", n, err)
		}
		if got := waitedFor(t, s); got != keys {
			t.Errorf("waited for %q, want %q", got, keys)
		}
	}
	save(expecting("backup, import"))
	want("backup import")
	save(expecting("import, report"))
	want("import report")
	ended, err := s.History(t.Context(), futurejobs.Filter{})
	if err != nil || len(ended.Items) != 1 || ended.Items[0].Key != "backup" || ended.Items[0].Reason != "the rule no longer expects its beats" {
		t.Errorf("history %+v, %v", ended.Items, err)
	}

	// A rule that rests begins nothing, and does once it no longer rests.
	save(expecting("import, report, sync", "enabled: false"))
	want("import report")
	save(expecting("import, sync"))
	want("import sync")

	// Another node, that knows of nothing, finds nothing to do.
	other := registry(b, s)
	if err := other.Book.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := other.Expect(t.Context()); n != 0 || err != nil {
		t.Errorf("another node found %d to do: %v", n, err)
	}
}

// What a node did not come to after it saved a rule, or could not while the rule was paused, the
// upkeep does.
func TestUpkeepExpectsWhatASaveDidNot(t *testing.T) {
	s := opened(t)
	rule := saved(t, s, 0, string(expecting("backup, import")))
	r := &rules.Registry{Store: s, Book: refreshed(t, s), Jobs: s, Log: quietly()}
	pause := func(is bool) {
		t.Helper()
		if err := r.Pause(t.Context(), rule.Name, is); err != nil {
			t.Fatal(err)
		}
		if err := r.Book.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pause(true)
	if n, err := r.Expect(t.Context()); n != 0 || err != nil {
		t.Errorf("a paused rule began %d waits: %v", n, err)
	}
	pause(false)
	if n, err := r.Expect(t.Context()); n != 2 || err != nil {
		t.Errorf("%d waits began, want 2: %v", n, err)
	}
	if got := waitedFor(t, s); got != "backup import" {
		t.Errorf("waited for %q", got)
	}
}

func TestTheFirstBeatOfAnExpectedKey(t *testing.T) {
	s := opened(t)
	saved(t, s, 0, string(expecting("pump-7")))
	r := &rules.Registry{Store: s, Book: refreshed(t, s), Jobs: s, Log: quietly()}
	if _, err := r.Expect(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := s.Jobs(t.Context(), futurejobs.Filter{})
	if err != nil || len(page.Items) != 1 {
		t.Fatal(page, err)
	}
	job := page.Items[0].Job
	job.Since = at("10:00:00")
	job.NextCheckAt = at("23:00:00")
	d := newDevice(t, everyTen)
	d.job = &job
	d.look("23:00:00")
	d.beat("23:10:00", rules.Beat{})
	d.expect(
		"23:00:00 warning firing: device pump-7: has never reported, expected every 10m (grace 2m)",
		"23:10:00 warning resolved: device pump-7 reports for the first time",
		"23:10:00 resolved: it reports for the first time",
	)
}

// A version with another time counts for who is waited for already, from the beat that came last.
func TestAnotherTimeMovesWhoIsWaitedFor(t *testing.T) {
	s := opened(t)
	_, b := broker(t)
	r := registry(b, s)
	var due []time.Time
	for _, every := range []string{"1d", "2h"} {
		text := strings.Replace(string(expecting("backup")), "every: 1d", "every: "+every, 1)
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
