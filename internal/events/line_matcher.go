package events

import (
	"slices"
	"time"

	futurejobs "deadman/future_jobs"
)

// matchTime is the approximate time for matching events before the matched ones are applied. Events that are expensive
// to match are applied a few at a time: they are not delayed by later ones, and few are matched again after a rule
// change.
const matchTime = 200 * time.Millisecond

// Limits of the tenants' lines. A batch of events that are expensive to match or write is applied in parts, and after each
// part waiting writers of the operator's lines come first.
const (
	tenantsMatchTime = 50 * time.Millisecond // as matchTime
	maxTenantsWrites = 500                   // as shares, of one part
	bytesPerWrite    = 32 << 10              // of an effect's event or of a dead letter, which count as one more write
)

// lineMatcher matches the events of a line against its rules.
type lineMatcher struct {
	in   *Intake
	line string
}

// newBatch matches events for up to matchTime. The subscribed subjects belong to the revision. If the rules are newer
// already, the transaction fails and the events are matched again.
func (m *lineMatcher) newBatch(got []futurejobs.Event, revision int64) batch {
	h := batch{revision: revision}
	m.appendEvents(&h, got)
	return h
}

// appendEvents adds events to a batch, and matches as many as possible within matchTime, at least one. On a tenants' line
// the time is shorter, the writes are bounded, and other tenants' lines wait: together they take one processor.
func (m *lineMatcher) appendEvents(h *batch, got []futurejobs.Event) {
	h.events = append(h.events, got...)
	for _, e := range got {
		h.size += len(e.Data)
	}
	limit, isTenants := matchTime, futurejobs.IsTenantsLine(m.line)
	if isTenants && h.matched < len(h.events) {
		m.in.turn.Lock()
		defer m.in.turn.Unlock()
		limit = tenantsMatchTime
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	for h.matched < len(h.events) && !(isTenants && h.isCostly()) {
		e := h.events[h.matched]
		e.Line = m.line
		h.matched++
		size := len(e.Data)
		if m.in.Place != nil {
			e.At = m.in.Place(e.At)
		}
		effects, refusals := m.match(&e)
		for _, r := range refusals {
			h.letters = append(h.letters, m.deadLetter(e, size, r))
		}
		h.effects = append(h.effects, effects...)
		h.writes += (len(effects) + len(refusals)) * (1 + size/bytesPerWrite)
		if len(effects)+len(refusals) == 0 {
			h.ignored++
		}
		select {
		case <-over.C:
			return
		default:
		}
	}
}

// match matches an event against the rules. It truncates a body that is too large, and rejects the event.
func (m *lineMatcher) match(e *futurejobs.Event) ([]futurejobs.Effect, []futurejobs.Refusal) {
	if n := len(e.Data); n > MaxBody {
		e.Data = e.Data[:MaxBody]
		return nil, []futurejobs.Refusal{{
			Reason: BodyTooLarge(n),
		}}
	}
	return m.in.Catalog.Match(*e)
}

// deadLetter returns the dead letter of a rejected event with a body of size bytes.
func (m *lineMatcher) deadLetter(e futurejobs.Event, size int, r futurejobs.Refusal) futurejobs.DeadLetter {
	l := futurejobs.NewDeadLetter(e, r, m.in.Now())
	if size > len(e.Data) {
		l.Size = size
	}
	return l
}

// replaceWithDeadLetter returns the batch of one event with a dead letter in place of the effects of a rule, or of
// all rules if rule is empty.
func (m *lineMatcher) replaceWithDeadLetter(b futurejobs.EffectBatch, e futurejobs.Event, refused error, rule string) futurejobs.EffectBatch {
	b.Effects = slices.DeleteFunc(slices.Clone(b.Effects), func(f futurejobs.Effect) bool { return rule == "" || f.Rule.Name == rule })
	if rule == "" {
		b.DeadLetters = nil // one dead letter stands for all rules
	}
	b.DeadLetters = append(slices.Clone(b.DeadLetters), m.deadLetter(e, len(e.Data), futurejobs.Refusal{Rule: rule, Reason: refused.Error()}))
	return b
}
