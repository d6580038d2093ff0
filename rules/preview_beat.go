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

// notYet is what a preview shows in the place of an event that begins the wait, where no beat came.
const notYet = "no beat yet"

// neverReports plays the wait for the first of the keys that a heartbeat expects, where no event
// begins the preview. It reports whether there is such a key.
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

// pinged reports whether an event of a preview stands for a ping. Where the rule listens to the
// subject ping, it is an event of that.
func (p *previewing) pinged(e PreviewEvent) bool {
	switch {
	case p.beats == nil:
		return false
	case e.Subject == "":
		return p.trigger.subject == ""
	}
	return e.Subject == aPing && !slices.Contains(p.document.Subjects(), aPing)
}

// ping plays a ping. One of the kind expected is none: the entity is declared and waited for from
// then on.
func (p *previewing) ping(e PreviewEvent) {
	ask, err := p.pingOf(e)
	e.Subject = aPing
	p.beaten(ask, e, err)
}

// beaten plays what a ping, or that none ever came, leads to.
func (p *previewing) beaten(ask futurejobs.Effect, by PreviewEvent, err error) {
	if err != nil {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("a ping at %s: %v", by.At.Format(time.RFC3339), err))
		return
	}
	p.apply(ask, by)
}

// expectation is that an entity is declared, which has not beaten yet.
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

// missing reports whether all is said of a beat that stays away: what is left is that the job stays.
func (p *previewing) missing() bool {
	return p.beats != nil && p.job != nil && len(p.steps) > 0 && p.job.Step >= len(p.steps) &&
		time.Duration(p.document.Hold) > p.engine.Limits.Horizon
}
