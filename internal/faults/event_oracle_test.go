package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The rules of the campaign, in campaign/orders.yaml.
const (
	Unshipped = "order-unshipped" // from created to shipped, in two steps, then held
	Placed    = "order-placed"    // from created, one step, then it ends
	Touched   = "order-touched"   // each touch restarts the job
)

// Event is one event of the campaign, as stored in its stream.
type Event struct {
	ID      string // set by the producer
	Subject string
	Key     string
	Seq     uint64
	At      time.Time
}

// Events reads streams of the campaign's events from their beginnings and orders the events by time. The id of an event
// is its subject and key, separated by a slash, and a number after another slash if the key has several.
func (c *Checker) Events(ctx context.Context, sources []string) (all []Event, err error) {
	for _, source := range sources {
		err := c.read(ctx, source, headersOnly, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
			id := msg.Headers().Get(jetstream.MsgIDHeader)
			parts := strings.Split(id, "/")
			if len(parts) < 2 {
				return fmt.Errorf("event %d of %s has id %q", meta.Sequence.Stream, source, id)
			}
			all = append(all, Event{ID: id, Subject: msg.Subject(), Key: parts[1], Seq: meta.Sequence.Stream, At: meta.Timestamp})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(sources) > 1 { // events of one stream keep the order of the stream
		slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	}
	return all, nil
}

// job identifies a job and its outcome; a pending job has none.
type job struct{ rule, key, outcome string }

func (j job) String() string { return j.rule + "/" + j.key + " " + cmp.Or(j.outcome, "pending") }

// expectedOutcomes returns the number of jobs of each kind that the rules require for events, in order, once all due checks are
// done. It shares no code with the engine.
func expectedOutcomes(events []Event) map[job]int {
	jobs := map[job]int{}
	for _, e := range events {
		waiting := job{Unshipped, e.Key, ""}
		switch e.Subject {
		case "orders.created":
			jobs[job{Placed, e.Key, "exhausted"}]++
			jobs[waiting] = 1
		case "orders.shipped":
			if jobs[waiting] == 1 {
				delete(jobs, waiting)
				jobs[job{Unshipped, e.Key, "resolved"}]++
			}
		case "orders.touched":
			again := job{Touched, e.Key, ""}
			if jobs[again] == 1 {
				jobs[job{Touched, e.Key, "restarted"}]++
			}
			jobs[again] = 1
		}
	}
	return jobs
}

// jobs counts pending and archived jobs, except those of rules saved by clients.
func (c *Checker) jobs(ctx context.Context) (map[job]int, error) {
	rows, err := c.DB.QueryContext(ctx, `SELECT r.name, j.key, j.outcome, count(*) FROM (
		SELECT rule_id, key, '' AS outcome FROM future_job UNION ALL SELECT rule_id, key, outcome FROM history) j
		JOIN rule r ON r.id = j.rule_id WHERE r.name NOT LIKE '`+ByClients+`%' GROUP BY r.name, j.key, j.outcome`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	there := map[job]int{}
	for rows.Next() {
		var j job
		var n int
		if err := rows.Scan(&j.rule, &j.key, &j.outcome, &n); err != nil {
			return nil, err
		}
		there[j] = n
	}
	return there, rows.Err()
}

// CheckEvents checks P1 on a system at rest: each acknowledged event is in one of the sources, once, and the events led
// to exactly the jobs and alerts that the rules require.
func (c *Checker) CheckEvents(ctx context.Context, sources, acknowledged []string) error {
	events, err := c.Events(ctx, sources)
	if err != nil {
		return err
	}
	breaches, err := c.outcomeBreaches(ctx, events)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, e := range events {
		times[e.ID]++
	}
	for _, id := range acknowledged {
		if times[id] != 1 {
			breaches = append(breaches, fmt.Sprintf("the broker acknowledged event %s and has it %d times", id, times[id]))
		}
	}
	return join(breaches)
}

// outcomeBreaches compares the jobs and alerts with those that the rules require for events.
func (c *Checker) outcomeBreaches(ctx context.Context, events []Event) (breaches []string, err error) {
	there, err := c.jobs(ctx)
	if err != nil {
		return nil, err
	}
	published, err := c.Stream(ctx)
	if err != nil {
		return nil, err
	}
	if c.CameBack {
		published = byDecision(published)
	}
	want := expectedOutcomes(events)
	for _, j := range slices.SortedFunc(maps.Keys(union(want, there)), func(a, b job) int { return cmp.Compare(a.String(), b.String()) }) {
		if want[j] != there[j] {
			breaches = append(breaches, fmt.Sprintf("P1: %s: %d jobs, want %d", j, there[j], want[j]))
		}
	}
	return append(breaches, c.missingAlerts(events, published)...), nil
}

func union(a, b map[job]int) map[job]int {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// missingAlerts compares the alerts with the events: an unshipped order is alerted step by step, an order shipped before a
// slot is not alerted at it, and an open alert is resolved.
func (c *Checker) missingAlerts(events []Event, published []PublishedAlert) (breaches []string) {
	created, shipped := map[string]bool{}, map[string]time.Time{}
	for _, e := range events {
		switch {
		case e.Subject == "orders.created":
			created[e.Key] = true
		case e.Subject == "orders.shipped" && created[e.Key]: // an earlier shipment belongs to another order
			shipped[e.Key] = e.At
		}
	}
	steps := map[string][]PublishedAlert{} // by rule and key
	for _, s := range published {
		name := s.Rule + "/" + s.Key
		steps[name] = append(steps[name], s)
		if at, over := shipped[s.Key]; over && s.Rule == Unshipped && s.Status == "firing" && at.Before(s.Slot) {
			breaches = append(breaches, fmt.Sprintf("P1: a false alarm: %s was shipped at %s, and step %s of slot %s was raised", name, at, s.Step, s.Slot))
		}
	}
	for _, e := range events {
		if e.Subject != "orders.created" {
			continue
		}
		_, over := shipped[e.Key]
		for _, rule := range []string{Placed, Unshipped} {
			got := alertsText(steps[rule+"/"+e.Key])
			if !slices.Contains(allowedAlerts(rule, over), got) && !(c.Lossy && slices.Contains(repeatableAlerts(rule, over), got)) {
				breaches = append(breaches, fmt.Sprintf("P1: the alerts of %s/%s are %q", rule, e.Key, got))
			}
		}
	}
	return breaches
}

// allowedAlerts returns the possible alerts of an order, at rest.
func allowedAlerts(rule string, shipped bool) []string {
	switch {
	case rule == Placed:
		return []string{"placed"}
	case shipped:
		return []string{"", "primary resolved", "primary+escalated resolved", "primary escalated resolved"}
	}
	return []string{"primary escalated", "primary+escalated"}
}

// repeatableAlerts returns further possible alerts of an order: the first step was raised, its commit was lost, and both
// steps were due when the job existed again.
func repeatableAlerts(rule string, shipped bool) []string {
	switch {
	case rule == Placed:
		return nil
	case shipped:
		return []string{"primary primary+escalated resolved"}
	}
	return []string{"primary primary+escalated"}
}

// alertsText formats the alerts of one job, in the order of the stream.
func alertsText(published []PublishedAlert) string {
	var words []string
	for _, s := range published {
		word := s.Status
		if s.Status == "firing" {
			word = strings.Join(append(slices.Clone(s.SkippedSteps), s.Step), "+")
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// join returns breaches as one error that lists the first few.
func join(breaches []string) error {
	const limit = 12
	if len(breaches) == 0 {
		return nil
	}
	shown := breaches[:min(limit, len(breaches))]
	return errors.New(strings.Join(shown, "\n") + fmt.Sprintf("\n(%d breaches)", len(breaches)))
}
