package web

import (
	"time"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
)

// TrailEntry is one thing that happened to a job, as it goes out.
type TrailEntry struct {
	Kind        string         `json:"kind" enum:"look,update,pause,resume,snooze,move,acknowledge,unacknowledge" doc:"What it was."`
	At          time.Time      `json:"at" doc:"The slot of a look; else when it happened."`
	LateSeconds float64        `json:"late_seconds,omitempty" doc:"Of a look: how long after its slot it was decided."`
	Saw         string         `json:"saw,omitempty" doc:"What the condition saw, clipped." example:"state.status = \"UNSHIPPED\""`
	Step        string         `json:"step,omitempty" doc:"The step that was taken." example:"primary"`
	Held        bool           `json:"held,omitempty" doc:"A step was due, and stayed unsaid because somebody had acknowledged."`
	Reason      string         `json:"reason,omitempty" doc:"Why it could not be found out, or was not looked at."`
	Outcome     checks.Outcome `json:"outcome,omitempty" doc:"Of a look that ended the job and of which no alert tells." example:"cleared"`
	Next        time.Time      `json:"next,omitzero" doc:"When it was to be looked at next."`
	By          string         `json:"by,omitempty" doc:"The subject of the event that did it, or who." example:"orders.changed"`
}

// trailOf is a trail as it goes out; nil where there is none.
func trailOf(t futurejobs.Trail) []TrailEntry {
	var all []TrailEntry
	for _, e := range t.Entries() {
		all = append(all, TrailEntry{
			Kind: string(e.Kind), At: e.At, LateSeconds: e.Late.Seconds(), Saw: e.Saw, Step: e.Took, Held: e.Held,
			Reason: e.Why, Outcome: e.Outcome, Next: e.Next, By: e.By,
		})
	}
	return all
}
