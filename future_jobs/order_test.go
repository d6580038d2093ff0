package futurejobs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"deadman/rules"
)

// readThrough marks the stream as read up to a time.
func (e *engine) readThrough(at time.Time) {
	e.Helper()
	if err := e.store.MarkRead(e.Context(), "S", e.seq, at.UTC()); err != nil {
		e.Fatal(err)
	}
}

// steps returns the names of the steps that were taken.
func (e *engine) steps() []string {
	var names []string
	for _, s := range e.alerts() {
		names = append(names, s.Step)
	}
	return names
}

// A trigger that restarts the job counts like any event that could end it.
func TestRestartingRuleWaitsForItsTriggersStream(t *testing.T) {
	const rule = `
name: touch
entity: thing
trigger: {event: touch.on, key: event.id}
again: restart
escalate: [{after: 4s, step: only}]
slot: 1s
`
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, rule)
		e.publish("touch.on", "1")
		time.Sleep(3 * time.Second)
		e.applyEvents()              // then ingest stops
		time.Sleep(20 * time.Second) // a repeat may be in the stream
		if steps := e.steps(); len(steps) != 0 {
			t.Fatalf("steps %v were taken before the stream was read past the slot", steps)
		}
		e.applyEvents()
		time.Sleep(2 * time.Second)
		if steps := e.steps(); len(steps) != 1 {
			t.Errorf("steps %v after the stream was read, want one", steps)
		}
	})
}

// A version without a restart waits for the trigger's stream as soon as a newer version restarts its jobs.
func TestJobWaitsForTriggerOfVersionThatRestartsIt(t *testing.T) {
	const rule = `
name: touch
entity: thing
trigger: {event: touch.on, key: event.id}
escalate: [{after: 4s, step: only}]
slot: 1s
`
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, rule)
		e.publish("touch.on", "1")
		e.save(rule+"again: restart\n", rules.StreamBinding{Subject: "touch.on", Stream: "OTHER"})
		if err := e.catalog.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.sweeper.Wake()
		time.Sleep(20 * time.Second)
		if steps := e.steps(); len(steps) != 0 {
			t.Errorf("steps %v were taken before the stream of the newer trigger was read", steps)
		}
	})
}

// The stream is read past the first step's slot, but not past the second's: this is the case if a node takes shards
// over before it takes their streams over.
func TestLateCheckTakesNoStepBeyondReadTimeOfItsStreams(t *testing.T) {
	const rule = `
name: two
entity: thing
trigger: {event: two.created, key: event.id}
resolve: {event: two.done, key: event.id}
escalate:
  - {after: 10s, step: first}
  - {after: 15s, step: second}
slot: 1s
`
	synctest.Test(t, func(t *testing.T) {
		e := startEngine(t, nil, rule)
		startedAt := time.Now()
		e.publish("two.created", "1")
		time.Sleep(25 * time.Second) // both slots are over
		e.readThrough(startedAt.Add(11 * time.Second))
		time.Sleep(2 * time.Second)
		if steps := e.steps(); len(steps) != 1 || steps[0] != "first" {
			t.Errorf("steps %v were taken, want the first alone: the stream is not read past the second", steps)
		}
		e.publish("two.done", "1") // its time is before the second step's slot, and it is read now
		e.applyEvents()
		time.Sleep(5 * time.Second)
		for _, listed := range e.alerts() {
			if listed.Step == "second" {
				t.Error("the second step was taken after an event that ended the job before its slot")
			}
		}
	})
}
