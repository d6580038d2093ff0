package rules

import (
	"encoding/json"
	"fmt"
	"time"

	futurejobs "deadman/future_jobs"
)

// aPing is the subject that pings of a preview may have.
const aPing = "ping"

// pinged reports whether an event of a preview stands for a ping, of a heartbeat without an event
// of its own.
func (p *previewing) pinged(e PreviewEvent) bool {
	return p.beats != nil && p.trigger.subject == "" && (e.Subject == "" || e.Subject == aPing)
}

// ping plays a ping. One of the kind expected is none: the entity is declared and waited for from
// then on.
func (p *previewing) ping(e PreviewEvent) {
	ask, err := p.pingOf(e)
	if err != nil {
		p.out.Refusals = append(p.out.Refusals, fmt.Sprintf("a ping at %s: %v", e.At.Format(time.RFC3339), err))
		return
	}
	e.Subject = aPing
	p.apply(ask, e)
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
		start, err := p.expecting(said.Key, e.At)
		return futurejobs.Effect{Rule: &p.engine, Ref: p.ref(said.Key, 1), Ask: start}, err
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
