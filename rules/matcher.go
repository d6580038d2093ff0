package rules

import (
	"deadman/rules/bodies"

	futurejobs "deadman/future_jobs"
)

// matcher matches one event against the rules.
type matcher struct {
	event    futurejobs.Event
	body     *bodies.Body
	shards   int
	only     futurejobs.Part // of the rules; empty: all of them
	late     bool
	tenants  tenancy
	effects  []futurejobs.Effect
	refusals []futurejobs.Refusal
}

// newMatcher parses an event. An error means that its envelope cannot be opened.
func newMatcher(e futurejobs.Event, shards int) (matcher, error) {
	opened, err := openEvent(e)
	return matcher{event: opened, body: bodies.New(opened.Data), shards: shards}, err
}

// matchRule matches the event against a rule: first for jobs to create, then to change, then to end. It reports whether
// that would have cost too much.
func (m *matcher) matchRule(all *rule, v *version) (tooMuch bool) {
	r, err := v.compiled()
	if err != nil {
		m.refuse(v.saved.Name, "", err)
		return false
	}
	withoutHeartbeat := r.heartbeat != nil && all.versions[0].document.Trigger.Heartbeat == nil // no heartbeat would postpone a job created now
	h := ruleMatch{matcher: m, Rule: r, isApart: r.isApart(all.starts, m.event.Stream), paused: all.paused || withoutHeartbeat, versionOf: func(j futurejobs.Job) *Rule {
		if created, err := all.of(j.Version).compiled(); err == nil {
			return created
		}
		return r
	}}
	own := m.budget()
	h.spend = &own
	if v.saved.Bounds == nil {
		h.match()
	} else {
		h.matchForTenant(v.saved)
	}
	return h.over != nil
}

// matchAgain matches the event of a dead letter against the newest version of a rule.
func (m *matcher) matchAgain(r *rule, part futurejobs.Part) {
	newest := r.versions[0]
	if r.halted {
		m.refuse(newest.saved.Name, part, errCostly)
		return
	}
	m.matchRule(r, newest)
}

// budget returns the budget of the rule's expressions on the event.
func (m *matcher) budget() budget { return budgetFor(m.body.Size()) }

func (m *matcher) refuse(rule string, part futurejobs.Part, err error) {
	m.refusals = append(m.refusals, futurejobs.Refusal{Rule: rule, Part: part, Reason: err.Error()})
}

// matchPlace is how many effects and refusals the rules before a rule had.
type matchPlace struct{ effects, refusals int }

func (m *matcher) place() matchPlace { return matchPlace{len(m.effects), len(m.refusals)} }

// since returns the number of effects and refusals since a place.
func (p matchPlace) since(before matchPlace) int {
	return p.effects - before.effects + p.refusals - before.refusals
}
