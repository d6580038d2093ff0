package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	futurejobs "deadman/future_jobs"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}

// playTicks plays a rule saved at one time until another, and returns the keys and times of its steps.
func playTicks(t *testing.T, rule, from, to string, meanwhile ...line) (all []string) {
	t.Helper()
	given := append(timeline{{at(t, from), kindSaved, ""}}, meanwhile...)
	playVirtual(t, rule, nil, append(given, line{at(t, to), kindUntil, ""}), func(v *virtual) {
		for _, a := range v.alerts() {
			all = append(all, a.Key+" at "+a.DecidedAt.UTC().Truncate(time.Second).Format(time.RFC3339))
		}
	})
	return all
}

// A tick skipped by the clock fires when the clock moves forward, a repeated one fires once, and nine in the morning
// stays nine in the morning.
func TestVirtualTicksOnUnusualDays(t *testing.T) {
	t.Parallel()
	const rule = `
name: import-missing
entity: import
trigger: {schedule: %q, zone: %s}
escalate: [{at: "09:00", step: late}]
`
	for name, c := range map[string]struct {
		schedule, zone, from, to string
		want                     []string
	}{
		"a night that is an hour short": {"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T08:00:00Z", []string{
			"2026-03-29T01:00:00Z at 2026-03-29T07:00:00Z", "2026-03-30T00:30:00Z at 2026-03-30T07:00:00Z",
		}},
		"a night that is an hour long": {"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T09:00:00Z", []string{
			"2026-10-25T00:30:00Z at 2026-10-25T08:00:00Z", "2026-10-26T01:30:00Z at 2026-10-26T08:00:00Z",
		}},
		"a leap day":   {"0 0 29 2 *", "America/New_York", "2028-02-28T12:00:00Z", "2028-02-29T15:00:00Z", []string{"2028-02-29T05:00:00Z at 2028-02-29T14:00:00Z"}},
		"the year end": {"59 23 31 12 *", "Asia/Kolkata", "2026-12-31T12:00:00Z", "2027-01-01T04:00:00Z", []string{"2026-12-31T18:29:00Z at 2027-01-01T03:30:00Z"}},
		"once":         {"@at 2026-03-29T10:00:00Z", "UTC", "2026-03-29T09:00:00Z", "2026-03-30T10:00:00Z", []string{"2026-03-29T10:00:00Z at 2026-03-30T09:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := playTicks(t, fmt.Sprintf(rule, c.schedule, c.zone), c.from, c.to)
			if diff := gocmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Restarts at odd times do not shift the ticks.
func TestVirtualTicksDoNotDrift(t *testing.T) {
	t.Parallel()
	var restarts []line
	begin := at(t, "2026-05-01T10:20:00Z")
	for i := range 9 {
		off := begin.Add(time.Duration(i+1) * (9*time.Hour + 17*time.Minute + 3*time.Second))
		restarts = append(restarts, line{off, kindDown, ""}, line{off.Add(11 * time.Minute), kindUp, ""})
	}
	got := playTicks(t, `
name: seven
entity: import
trigger: {schedule: "@every 7h"}
escalate: [{after: 1h, step: late}]
`, "2026-05-01T10:20:00Z", "2026-05-05T10:00:00Z", restarts...)
	var want []string
	for tick := begin.Add(7 * time.Hour); tick.Before(at(t, "2026-05-05T09:00:00Z")); tick = tick.Add(7 * time.Hour) {
		want = append(want, tick.Format(time.RFC3339)+" at "+tick.Add(time.Hour).Format(time.RFC3339))
	}
	if len(want) != 13 {
		t.Fatalf("%d ticks, which tests nothing", len(want))
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Of the ticks missed in three days without a node only the last one counts, by catch_up, and the others are counted
// as skipped.
func TestVirtualMissedTicksAreAppliedAsOne(t *testing.T) {
	t.Parallel()
	const rule = `
name: import-missing
entity: import
trigger: {schedule: "0 6 * * *", keys: [customers, products]}
resolve: {event: imports.finished, key: event.source}
escalate: [{after: 2h, step: late}]
`
	ended := func(outcome string, n int) []string {
		return slices.Repeat([]string{outcome + " since 2026-06-04T06:00:00Z"}, n)
	}
	for name, c := range map[string]struct {
		more    string
		counts  map[futurejobs.TickOutcome]int
		history []string // of jobs of the last tick
		alerts  int
		body    string
	}{
		"run": {"", map[futurejobs.TickOutcome]int{futurejobs.TickStarted: 2, futurejobs.TickMissed: 2}, nil, 4, `{"tick":"2026-06-04T06:00:00Z","missed":2}`},
		"run, since it is not too late": {
			"catch_up: {after: 7h, do: expire}", map[futurejobs.TickOutcome]int{futurejobs.TickStarted: 2, futurejobs.TickMissed: 2}, nil, 4, `{"tick":"2026-06-04T06:00:00Z","missed":2}`,
		},
		"skip": {
			"catch_up: {after: 5h, do: skip}",
			map[futurejobs.TickOutcome]int{futurejobs.TickStarted: 1, futurejobs.TickSkipped: 1, futurejobs.TickMissed: 2},
			nil, 3,
			`{"tick":"2026-06-01T06:00:00Z","missed":0}`,
		},
		"expire": {
			"catch_up: {after: 5h, do: expire}",
			map[futurejobs.TickOutcome]int{futurejobs.TickStarted: 1, futurejobs.TickExpired: 1, futurejobs.TickMissed: 2},
			ended("expired", 2), 3,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := timeline{
				{at(t, "2026-05-31T12:00:00Z"), kindSaved, ""},
				{at(t, "2026-06-01T12:00:00Z"), kindDown, ""},
				{at(t, "2026-06-04T12:00:00Z"), kindUp, ""},
				{at(t, "2026-06-05T00:00:00Z"), kindUntil, ""},
			}
			playVirtual(t, rule+c.more, nil, given, func(v *virtual) {
				if diff := gocmp.Diff(c.counts, v.ticked.counts); diff != "" {
					t.Errorf("ticks -want +got:\n%s", diff)
				}
				var history []string
				for _, e := range v.ended() {
					if e.Since.Equal(at(t, "2026-06-04T06:00:00Z")) {
						history = append(history, string(e.Outcome)+" since "+e.Since.UTC().Format(time.RFC3339))
					}
				}
				if diff := gocmp.Diff(c.history, history); diff != "" {
					t.Errorf("history -want +got:\n%s", diff)
				}
				n := 0
				for _, a := range v.alerts() {
					if a.Status != "resolved" {
						n++
					}
				}
				if n != c.alerts {
					t.Errorf("%d alerts, want %d: %v", n, c.alerts, v.alerts())
				}
				v.checkState(c.body)
			})
		})
	}
}

// checkState compares the state of the pending jobs; empty: none.
func (v *virtual) checkState(body string) {
	v.t.Helper()
	page, err := v.store.Jobs(v.t.Context(), futurejobs.Filter{Limit: futurejobs.MaxLimit})
	v.checkComplete(page.Next, err)
	if (len(page.Items) == 0) != (body == "") {
		v.t.Errorf("%d jobs wait", len(page.Items))
	}
	for _, j := range page.Items {
		var is, want any
		if json.Unmarshal(j.Event, &is) != nil || json.Unmarshal([]byte(body), &want) != nil || !gocmp.Equal(is, want) {
			v.t.Errorf("%s carries %s, want %s", j.Key, j.Event, body)
		}
	}
}

// An import received while the node is down, after the tick that should have created its job, counts; one received
// before that tick does not.
func TestVirtualTicksApplyEarlyEvents(t *testing.T) {
	t.Parallel()
	const rule = `
name: import-missing
entity: import
trigger: {schedule: "0 6 * * *", keys: [customers, products]}
resolve: {event: imports.finished, key: event.source}
escalate: [{after: 4h, step: late}]
`
	got := playTicks(t, rule, "2026-05-31T12:00:00Z", "2026-06-01T18:00:00Z",
		line{at(t, "2026-06-01T05:30:00Z"), kindDown, ""},
		line{at(t, "2026-06-01T05:59:00Z"), kindEvent, `imports.finished {"source": "products"}`},
		line{at(t, "2026-06-01T06:20:00Z"), kindEvent, `imports.finished {"source": "customers"}`},
		line{at(t, "2026-06-01T06:40:00Z"), kindUp, ""},
	)
	if diff := gocmp.Diff([]string{"products at 2026-06-01T10:00:00Z"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A job that came due while the node was down, before the next tick, raises its alert before that tick restarts it; a
// job whose import was received does not.
func TestVirtualTicksRaiseEveryAlert(t *testing.T) {
	t.Parallel()
	const rule = `
name: import-missing
entity: import
trigger: {schedule: "0 2 * * *", keys: [customers, products]}
resolve: {event: imports.finished, key: event.source}
escalate: [{after: 4h, step: late}]
`
	given := timeline{
		{at(t, "2026-06-01T00:00:00Z"), kindSaved, ""},
		{at(t, "2026-06-01T05:00:00Z"), kindDown, ""},
		{at(t, "2026-06-01T07:00:00Z"), kindEvent, `imports.finished {"source": "products"}`},
		{at(t, "2026-06-02T02:30:00Z"), kindUp, ""},
		{at(t, "2026-06-02T03:00:00Z"), kindEvent, `imports.finished {"source": "customers"}`},
		{at(t, "2026-06-02T12:00:00Z"), kindUntil, ""},
	}
	const want = `Tue 02 Jun 02:30  alert    warning late: no imports.finished for import customers within 4h of the tick
                  alert    warning resolved: import customers: restarted by a new trigger
                  ends     customers, restarted
                  ends     products, resolved
Tue 02 Jun 03:00  ends     customers, resolved
Tue 02 Jun 06:00  alert    warning late: no imports.finished for import products within 4h of the tick
`
	// On a slow machine, the tick after the outage is put off and tried again after 5 s.
	const later = `Tue 02 Jun 02:30     alert    warning late: no imports.finished for import customers within 4h of the tick
                     ends     products, resolved
Tue 02 Jun 02:30:05  alert    warning resolved: import customers: restarted by a new trigger
                     ends     customers, restarted
Tue 02 Jun 03:00     ends     customers, resolved
Tue 02 Jun 06:00     alert    warning late: no imports.finished for import products within 4h of the tick
`
	playVirtual(t, rule, nil, given, func(v *virtual) {
		if got := v.alertLines().String(); got != want && got != later {
			t.Errorf("alerts:\n%swant:\n%s", got, want)
		}
	})
}

// Ticks of a paused rule are skipped and not made up for.
func TestVirtualTicksOfPausedRuleAreSkipped(t *testing.T) {
	t.Parallel()
	const rule = `
name: import-missing
entity: import
trigger: {schedule: "0 6 * * *"}
escalate: [{after: 1h, step: late}]
`
	given := timeline{{at(t, "2026-06-01T12:00:00Z"), kindSaved, ""}, {at(t, "2026-06-03T12:00:00Z"), kindUntil, ""}}
	playVirtual(t, rule, nil, given, func(v *virtual) {
		if err := v.store.Pause(v.t.Context(), "import-missing", true); err != nil {
			t.Fatal(err)
		}
		v.reloadRules()
		v.play(timeline{{at(t, "2026-06-05T12:00:00Z"), kindUntil, ""}})
		if err := v.store.Pause(v.t.Context(), "import-missing", false); err != nil {
			t.Fatal(err)
		}
		v.reloadRules()
		v.play(timeline{{at(t, "2026-06-06T12:00:00Z"), kindUntil, ""}})
		want := map[futurejobs.TickOutcome]int{futurejobs.TickStarted: 3, futurejobs.TickPaused: 2}
		if diff := gocmp.Diff(want, v.ticked.counts); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func (v *virtual) reloadRules() {
	v.t.Helper()
	if err := v.catalog.Refresh(v.t.Context()); err != nil {
		v.t.Fatal(err)
	}
}
