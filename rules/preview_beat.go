package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// aPing is the subject that pings of a preview may have.
const aPing = "ping"

// notYet is the text of a preview's first line if no event begins the job because no heartbeat came.
const notYet = "no beat yet"

// neverReports plays the job of the first key that a heartbeat expects, if no event begins the preview. It reports
// whether such a key exists.
func (p *previewing) neverReports(first PreviewEvent) bool {
	keys := p.document.expected()
	if len(keys) == 0 || first.Subject != "" || len(first.Data) > 0 {
		return false
	}
	ask, err := p.expectation(keys[0], first.At)
	first.Subject = notYet
	p.beaten(ask, first, err)
	return true
}

// pinged reports whether an event of a preview represents a ping. If the rule listens to the subject ping, it is an
// event on that subject.
func (p *previewing) pinged(e PreviewEvent) bool {
	switch {
	case p.beats == nil:
		return false
	case e.Subject == "":
		return p.trigger.subject == ""
	}
	return e.Subject == aPing && !slices.Contains(p.document.Subjects(), aPing)
}

// ping plays a ping. The kind expected is no ping: the entity is declared and expected from then on.
func (p *previewing) ping(e PreviewEvent) {
	ask, err := p.pingOf(e)
	e.Subject = aPing
	p.beaten(ask, e, err)
}

// beaten plays the effect of a ping, or of the absence of any.
func (p *previewing) beaten(ask futurejobs.Effect, by PreviewEvent, err error) {
	if err != nil {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("a ping at %s: %v", by.At.Format(time.RFC3339), err))
		return
	}
	p.apply(ask, by)
}

// expectation returns the effect of declaring an entity that has not sent a heartbeat yet.
func (p *previewing) expectation(key string, at time.Time) (e futurejobs.Effect, err error) {
	if err := checkKey(key); err != nil {
		return e, err
	}
	start, err := p.startExpected(key, at)
	return futurejobs.Effect{Rule: &p.engine, Ref: p.ref(key, 1), Action: start}, err
}

func (p *previewing) pingOf(e PreviewEvent) (futurejobs.Effect, error) {
	var said struct {
		Key string `json:"key"`
		ping
	}
	if err := json.Unmarshal(e.Data, &said); err != nil {
		return futurejobs.Effect{}, fmt.Errorf(`%w; write it as {"key": "backup", "kind": "success"}`, err)
	}
	if said.Kind == Expected {
		return p.expectation(said.Key, e.At)
	}
	if said.Kind == "" {
		said.Kind = Success
	}
	return p.Beat(Beat{Key: said.Key, At: e.At, Kind: said.Kind, Run: said.Run, Exit: said.Exit, Body: said.Body}, 1)
}

// missing reports whether all alerts of a missing heartbeat were raised, and only the hold of the job is left.
func (p *previewing) missing() bool {
	return p.beats != nil && p.job != nil && len(p.steps) > 0 && p.job.Step >= len(p.steps) &&
		time.Duration(p.document.Hold) > p.engine.Limits.Horizon
}
