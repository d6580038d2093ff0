package rules_test

import (
	"fmt"
	"testing"
	"time"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/rules"
)

// jobHistory is an engine without a store: events are applied and jobs are checked, each at its time.
type jobHistory struct {
	*testing.T
	catalog *rules.Catalog
	jobs    map[futurejobs.Ref]futurejobs.Job
	ids     int64 // of the last job
	known   map[string]alerts.ID
}

func newJobHistory(t *testing.T, catalog *rules.Catalog, ids int64) *jobHistory {
	return &jobHistory{T: t, catalog: catalog, jobs: map[futurejobs.Ref]futurejobs.Job{}, ids: ids, known: map[string]alerts.ID{}}
}

// apply checks the jobs that were due before an event, as the stream is read past their slots, and then
// applies it.
func (h *jobHistory) apply(now time.Time, e futurejobs.Event) {
	h.Helper()
	h.check(e.At)
	effects, refusals := h.catalog.Match(e)
	if len(refusals) > 0 {
		h.Fatal(refusals)
	}
	net := futurejobs.Fold(effects, futurejobs.FoldInput{Pending: h.jobs}, now)
	for _, d := range net.End {
		h.storeDecision(d)
	}
	for _, d := range net.StartedAndEnded {
		delete(h.jobs, d.Job.Ref)
	}
	for _, j := range writtenJobs(net) {
		if j.ID == 0 {
			h.ids++
			j.ID = h.ids
		}
		h.jobs[j.Ref] = j
	}
}

// check checks the jobs that are due by now, each at its slot.
func (h *jobHistory) check(now time.Time) {
	h.Helper()
	for checked := true; checked; {
		checked = false
		for ref, j := range h.jobs {
			if j.NextCheckAt.After(now) {
				continue
			}
			rule, err := h.catalog.Rule(h.Context(), ref.RuleID, j.Version)
			if err != nil {
				h.Fatal(err)
			}
			h.storeDecision(rule.Check(h.Context(), j, j.NextCheckAt))
			checked = true
		}
	}
}

func (h *jobHistory) storeDecision(d futurejobs.Decision) {
	h.jobs[d.Job.Ref] = d.Job
	if d.Ends() {
		delete(h.jobs, d.Job.Ref)
	}
	for _, a := range d.Alerts {
		name := fmt.Sprintf("%s %s since %s: %s %s", a.Rule, a.Key, a.Since.Format(time.TimeOnly), a.Status, a.Step)
		if id, twice := h.known[name]; twice && id != a.ID {
			h.Errorf("%s was raised as %s and as %s", name, id, a.ID)
		}
		h.known[name] = a.ID
	}
}

const paymentRule = `
name: unpaid
entity: payment
trigger: {event: p.started, key: event.id}
resolve: {event: p.paid, key: event.id}
escalate: [{after: 1m, step: first}, {after: 3m, step: second}, {after: 1h, step: third}]
slot: 1s
`

// A database that lost its last minutes has the events of those minutes applied again, later, and to
// other jobs. The alerts keep the ids that they had.
func TestAlertsOfEventsThatAreAppliedAgainKeepTheirIDs(t *testing.T) {
	s := openStore(t)
	saveRule(t, s, 0, paymentRule)
	saveRule(t, s, 0, `
name: since
entity: payment
trigger: {event: p.started, key: event.id, since: event.at}
resolve: {event: p.paid, key: event.id}
escalate: [{after: 30s, step: primary}]
slot: 1s
`)
	catalog := newCatalog(t, s)
	start := time.Date(2026, 1, 1, 10, 0, 0, 123_456_789, time.UTC)
	event := func(seq uint64, subject, id string, after time.Duration) futurejobs.Event {
		return futurejobs.Event{
			Stream: "S", Subject: subject, Seq: seq, At: start.Add(after),
			Data: fmt.Appendf(nil, `{"id":%q,"at":%q}`, id, start.Add(after-time.Hour).Format(time.RFC3339)),
		}
	}
	events := []futurejobs.Event{
		event(1, "p.started", "a", 0),
		event(2, "p.started", "b", 10*time.Second),
		event(3, "p.paid", "b", 100*time.Second),
		event(4, "p.started", "b", 101*time.Second), // restarts
		event(5, "p.started", "c", 200*time.Second),
	}
	whole := newJobHistory(t, catalog, 0)
	for _, e := range events {
		whole.apply(e.At.Add(3*time.Millisecond), e)
	}
	whole.check(start.Add(30 * time.Minute))
	if want := 13; len(whole.known) != want {
		t.Fatalf("%d alerts, want %d: %v", len(whole.known), want, whole.known)
	}

	for lost := range events { // the database knows so many of the events when it is lost
		for _, late := range []time.Duration{210 * time.Second, 212*time.Second + 400*time.Millisecond, 25 * time.Minute} {
			again := newJobHistory(t, catalog, 1000)
			for _, e := range events[:lost] {
				again.apply(e.At.Add(3*time.Millisecond), e)
			}
			for i, e := range events[lost:] {
				again.apply(start.Add(late).Add(time.Duration(i)*time.Millisecond), e)
			}
			again.check(start.Add(30 * time.Minute))
			if len(again.known) == 0 {
				t.Errorf("%d events known, applied again after %s: no alert", lost, late)
			}
			for name, id := range again.known {
				if id != whole.known[name] {
					t.Errorf("%d events known, applied again after %s: %s is %s (%s), it was %s (%s)", lost, late, name,
						id, alerts.TimeOf(id), whole.known[name], alerts.TimeOf(whole.known[name]))
				}
			}
		}
	}
}
