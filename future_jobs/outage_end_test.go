package futurejobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// reachableSource is a source with a reachable host and any answers, like a web service.
type reachableSource struct{ *source }

func (reachableSource) Reach(context.Context) error { return nil }

// hangingSource is an unreachable source that takes the full timeout to fail.
type hangingSource struct {
	*source
	tries atomic.Int32
}

func (h *hangingSource) Reach(ctx context.Context) error {
	h.tries.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// A source is tried once for all of its rules.
func TestSourceIsProbedOnceForAllItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &hangingSource{source: &source{most: 40, find: sourceDown}}
		handle, documents := map[string]checks.Handler{}, []string{}
		for i := range 20 {
			name := fmt.Sprintf("lookups-%d", i)
			handle[name] = shop
			documents = append(documents, strings.Replace(fmt.Sprintf(noResolve, name, name), "attempts: 3", "attempts: 1, end: true", 1))
		}
		e := startEngine(t, handle, documents...)
		for name := range handle {
			e.publish(name+".created", "1")
		}
		time.Sleep(10 * time.Minute)
		if open, err := e.store.Outages(t.Context()); err != nil || len(open) != 20 {
			t.Fatalf("open: %d, %v", len(open), err)
		}
		tries := shop.tries.Load()
		time.Sleep(time.Minute)
		if tries = shop.tries.Load() - tries; tries < 6 || tries > 20 {
			t.Errorf("tried %d times in a minute, want once every five seconds and what that takes", tries)
		}
	})
}

// A reachable host does not imply an answer.
func TestVirtualOutageLastsWithoutAnswers(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(string) checks.Finding{
		"source down": sourceDown,
		"one key cannot be queried": func(key string) checks.Finding {
			if key == "7" {
				return checks.Finding{Err: errors.New("lookup: path: a value is missing")}
			}
			return sourceDown(key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shop := reachableSource{&source{most: 4, find: find}}
				e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"))
				e.publish("lookups.created", keys(300)...)
				time.Sleep(2 * time.Hour)
				for i, a := range e.alerts() {
					if a.Source == "" && a.Key == "7" {
						continue // the key has its own alert
					}
					if a.Status != alerts.Undetermined || i > 1 {
						t.Errorf("alert %s about %q: %s", a.Status, a.Source, a.Text)
					}
				}
				if open, err := e.store.Outages(t.Context()); err != nil || len(open) != 1 {
					t.Errorf("open: %+v, %v", open, err)
				}
				shop.setFinder(foundKnown)
				time.Sleep(10 * time.Minute)
				open, err := e.store.Outages(t.Context())
				if jobs, _ := e.store.Gauges(t.Context()); err != nil || len(open) != 0 || jobs.Pending != 0 || e.alerts()[0].Status != alerts.Resolved {
					t.Errorf("open once it answers: %+v, %v; pending: %d", open, err, jobs.Pending)
				}
			})
		})
	}
}

// A job that stays undetermined when its source is back raises an alert, though the outage covered it before: the
// outage is over, so its alert no longer covers the job.
func TestJobsLeftByOutageAreAlerted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 4, find: sourceDown}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		e.publish("lookups.created", keys(30)...)
		time.Sleep(2 * time.Minute)
		shop.setFinder(func(key string) checks.Finding {
			if key == "7" {
				return checks.Finding{Err: errors.New("more than one row")}
			}
			return foundKnown(key)
		})
		time.Sleep(time.Hour)
		var own []futurejobs.ListedAlert
		for _, a := range e.alerts() {
			if a.Source == "" {
				own = append(own, a)
			}
		}
		if len(own) != 1 || own[0].Key != "7" || own[0].Status != alerts.Undetermined || !strings.Contains(own[0].Text, "more than one row") {
			t.Errorf("alerts about jobs: %+v, want one about 7 failed lookups", own)
		}
		open, err := e.store.Outages(t.Context())
		if listed := e.alerts(); err != nil || len(open) != 0 || len(listed) != 3 {
			t.Errorf("open: %+v, %v; alerts %+v", open, err, listed)
		}
	})
}

// An open outage covers the jobs that it affected, whatever their later errors: otherwise each try of a source would
// raise the alert of another job.
func TestOpenOutageSuppressesCheckErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := &source{most: 4, find: sourceDown}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		e.publish("lookups.created", keys(30)...)
		time.Sleep(2 * time.Minute)
		shop.setFinder(func(string) checks.Finding { return checks.Finding{Err: context.DeadlineExceeded} })
		time.Sleep(time.Minute)
		shop.setFinder(sourceDown)
		time.Sleep(time.Hour)
		if listed := e.alerts(); len(listed) != 1 || listed[0].Source != "shop" {
			t.Errorf("alerts %+v, want the outage alone", listed)
		}
	})
}

// A source may answer before this node has read that another node opened the outage. The answer ends the outage
// nevertheless; otherwise it would stay open for as long as failed jobs are checked again (6 min).
func TestOutageEndsByAnswerThatPrecedesItsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := reachableSource{&source{most: 4, find: foundKnown}}
		e := startEngine(t, map[string]checks.Handler{"lookups": shop}, fmt.Sprintf(noResolve, "lookups", "lookups"))
		start := time.Now()
		time.Sleep(300 * time.Millisecond)
		e.publish("lookups.created", keys(20)...) // checked 11 s after the start
		time.Sleep(time.Until(start.Add(10*time.Second + 500*time.Millisecond)))
		e.startJobs("shop")
		time.Sleep(time.Until(start.Add(14 * time.Second)))
		if batches, _ := shop.batchCounts(); len(batches) == 0 {
			t.Fatal("the source was not queried before the outages were read")
		}
		time.Sleep(7 * time.Second) // outages are read every 5 s
		if open, err := e.store.Outages(t.Context()); err != nil || len(open) != 0 {
			t.Errorf("open 10 s after the source answered: %+v, %v", open, err)
		}
	})
}

// startJobs opens an outage of rule 1, as another node does.
func (e *engine) startJobs(source string) {
	e.Helper()
	rule, err := e.catalog.Rule(e.Context(), 1, 1)
	if err != nil {
		e.Fatal(err)
	}
	leases, err := e.store.Leases(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	_, err = e.store.RecordOutage(e.Context(), futurejobs.OutageHit{
		Held: []futurejobs.HeldShard{leases[0].HeldShard}, RuleSet: e.catalog.Revision(),
		Outage: futurejobs.Outage{Source: source, RuleID: rule.ID, Version: 1, Jobs: 1, Reason: "connection refused"},
		Alert:  func(o futurejobs.Outage) alerts.Alert { return o.OpeningAlert(rule.Name, rule.Entity) },
	})
	if err != nil {
		e.Fatal(err)
	}
}
