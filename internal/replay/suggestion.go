package replay

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/rules/document"
)

// Wanted is the share of jobs that a step is to alert on.
type Wanted struct {
	Step  string // empty: each step
	Share float64
}

// Suggestion is the time of a step that the history supports for a wanted share of alerts.
type Suggestion struct {
	Rule     string  `json:"rule"`
	Step     string  `json:"step"`
	Wanted   float64 `json:"wanted"`              // share of jobs
	AfterNow string  `json:"after_now,omitempty"` // of the rule; empty: the step has none
	After    string  `json:"after,omitempty"`     // the suggestion; empty: none
	Calendar string  `json:"calendar,omitempty"`  // whose open time both count
	Learned  Part    `json:"learned"`
	HeldBack Part    `json:"held_back"`
	Refused  string  `json:"refused,omitempty"` // why there is no suggestion
}

// Part is a part of the history: the jobs that began in it.
type Part struct {
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	Jobs      int64     `json:"jobs"`
	Undecided int64     `json:"undecided"`          // jobs that were pending in the part for less than After
	Rate      *float64  `json:"rate,omitempty"`     // share of alerts with After; nil: unknown
	RateNow   *float64  `json:"rate_now,omitempty"` // share of alerts with AfterNow; nil: unknown
}

// The numbers of alerts that the parts of a history have to contain, so that their rates mean something.
const (
	fewestLearned  = 10
	fewestHeldBack = 3
)

// heldBack is the last share of the time in which jobs began: suggestions are not learned from it.
const heldBack = 1.0 / 3

// ErrStep means that no rule has a step.
var ErrStep = errors.New("no rule has the step")

// RecordLives makes the replay keep the life of each job for Suggest. It is called before the first event.
func (r *Replay) RecordLives() { r.summary.lives = make(map[int32][]observation) }

// Suggest adds the suggestions for the wanted shares to the summary. It is called after Finish.
func (r *Replay) Suggest(wanted []Wanted) error {
	for ref, e := range r.pending {
		r.summary.lives[ref.RuleID] = append(r.summary.lives[ref.RuleID], newObservation(e.job, r.summary.Until, false))
	}
	from, split := r.summary.split()
	for _, w := range wanted {
		found := false
		for i, d := range r.documents {
			rule, err := r.catalog.Newest(d.Name)
			if err != nil {
				return err
			}
			for _, step := range d.Escalate {
				if w.Step != "" && w.Step != step.Name {
					continue
				}
				found = true
				h := stepHistory{document: d, step: step, rule: r.summary.Rules[i], lives: r.summary.lives[int32(i+1)], of: rule.CalendarOf(step.Name)} //nolint:gosec // a count of documents
				r.summary.Suggestions = append(r.summary.Suggestions, h.suggest(w.Share, from, split, r.summary.Until))
			}
		}
		if !found {
			return fmt.Errorf("%w %s", ErrStep, w.Step)
		}
	}
	return nil
}

// split returns the begin of the first job, and of the held-back part.
func (s *Summary) split() (from, split time.Time) {
	from = s.From
	last := s.From
	for _, lives := range s.lives {
		for _, o := range lives {
			if o.since.Before(from) {
				from = o.since
			}
			if o.since.After(last) {
				last = o.since
			}
		}
	}
	return from, from.Add(time.Duration(float64(last.Sub(from)) * (1 - heldBack)))
}

// stepHistory is the history of the jobs of a step.
type stepHistory struct {
	document document.Document
	step     document.Step
	rule     *RuleResult
	lives    []observation
	of       *calendars.Calendar // nil: all time counts
}

// suggest returns the time after which at most a share of the jobs of the first part is pending, and the shares that are
// pending after it in both parts. What happened after the first part is not used to learn from it.
func (h stepHistory) suggest(share float64, from, split, until time.Time) Suggestion {
	s := Suggestion{
		Rule: h.document.Name, Step: h.step.Name, Wanted: share, Calendar: h.step.Of,
		Learned: Part{From: from, Until: split}, HeldBack: Part{From: split, Until: until},
	}
	if h.step.After != (document.Delay{}) {
		s.AfterNow = h.step.After.String()
	}
	if s.Refused = h.unsuitable(); s.Refused != "" {
		return s
	}
	slot := time.Duration(h.document.Slot)
	grid := futurejobs.Grid(slot)
	var ages [2][]age
	for _, o := range h.lives {
		if o.since.Before(split) {
			ages[0] = append(ages[0], o.ageAt(split, h.of, grid))
		} else {
			ages[1] = append(ages[1], o.ageAt(until, h.of, grid))
		}
	}
	learned, held := newSurvival(ages[0]), newSurvival(ages[1])
	s.Learned.fill(learned, time.Duration(h.step.After.Fixed))
	s.HeldBack.fill(held, time.Duration(h.step.After.Fixed))
	if s.Refused = s.tooFew(); s.Refused != "" {
		return s
	}
	after, ok := learned.least(share)
	if !ok {
		s.Refused = fmt.Sprintf("more than %s of the jobs were pending for as long as the first part of the history shows", Percent(share))
		if n := h.rule.Outcomes[string(checks.Exhausted)]; n > 0 {
			s.Refused += fmt.Sprintf("; %s ended as exhausted, after hold: raise hold to see how long they take", humanize.Comma(n))
		}
		return s
	}
	after = after.Truncate(slot) + slot // the step alerts on jobs that reach it
	s.After = document.Duration(after).String()
	s.Learned.rate(learned, after)
	s.HeldBack.rate(held, after)
	for _, part := range []struct {
		name string
		Part
	}{{"first", s.Learned}, {"held-back", s.HeldBack}} {
		if part.Rate == nil || part.Undecided*2 > part.Jobs {
			s.Refused = fmt.Sprintf("it would be %s, and the %s part of the history is too short for it: %s of its %s jobs were pending for less",
				s.After, part.name, humanize.Comma(part.Undecided), humanize.Comma(part.Jobs))
			s.After = ""
			return s
		}
	}
	return s
}

// unsuitable returns why the times of jobs do not determine the time of the step; empty: they do.
func (h stepHistory) unsuitable() string {
	switch {
	case h.document.Trigger.Heartbeat != nil:
		return "the step counts from a missed heartbeat; the intervals of the heartbeats determine it"
	case h.step.After.Computed != "" || h.step.After.Fixed == 0:
		return "the step has no fixed time after the start of a job"
	case h.rule.Outcomes[string(checks.Cleared)] > 0:
		return "the condition of the rule ends its jobs, and a check notices that only at a step; add a resolve by an event"
	}
	return ""
}

// tooFew returns why the parts have too few jobs; empty: they have enough.
func (s *Suggestion) tooFew() string {
	for _, part := range []struct {
		name   string
		jobs   int64
		fewest float64
	}{{"first", s.Learned.Jobs, fewestLearned}, {"held-back", s.HeldBack.Jobs, fewestHeldBack}} {
		if least := int64(math.Ceil(part.fewest/s.Wanted - rounding)); part.jobs < least {
			return fmt.Sprintf("too little history: the %s part has %s jobs, and %s of alerts needs %s", part.name, humanize.Comma(part.jobs), Percent(s.Wanted), humanize.Comma(least))
		}
	}
	return ""
}

// fill counts the jobs of a part, and computes the rate of the step as it is.
func (p *Part) fill(s survival, now time.Duration) {
	p.Jobs = int64(len(s.ages))
	if rate, known := s.reached(now); known {
		p.RateNow = &rate
	}
}

// rate computes the rate of the suggested step.
func (p *Part) rate(s survival, after time.Duration) {
	p.Undecided = s.undecided(after)
	if rate, known := s.reached(after); known {
		p.Rate = &rate
	}
}

// Percent returns a share as text.
func Percent(share float64) string {
	digits := 1
	if share > 0 && share < 0.001 {
		digits = 3
	}
	text := fmt.Sprintf("%.*f", digits, share*100)
	return strings.TrimSuffix(text, ".0") + " %"
}

// PercentOf returns a share as text; - if it is unknown.
func PercentOf(share *float64) string {
	if share == nil {
		return "-"
	}
	return Percent(*share)
}
