package rules

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	"deadman/internal/calendars"
	"deadman/internal/configfile"
	"deadman/internal/schedules"
)

// stepCompiler compiles the steps of a rule.
type stepCompiler struct {
	*compiler
	own calendars.Set // the calendars that the document defines itself
}

// steps compiles the escalation, with each repetition of a step as a step.
func (c stepCompiler) steps(d document.Document) []step {
	c.own = c.ownCalendars(d)
	switch turns := d.StepCount(); {
	case d.HasNoSteps():
		d.Escalate = d.Steps()
	case d.Trigger.Emit != nil, d.Trigger.IsStored(): // an emitted event replaces the steps
		return nil
	case len(d.Escalate) == 0 && d.Handler == "":
		c.problem("/escalate", "the rule has no steps, so it never alerts; write escalate: [{after: 3h, step: primary}]")
	case len(d.Escalate) > document.MaxSteps:
		c.problem("/escalate", "%d steps, the most is %d", len(d.Escalate), document.MaxSteps)
		return nil
	case turns > document.MaxTurns:
		c.problem("/escalate", "%d steps including repetitions, the most is %d; lower times", turns, document.MaxTurns)
		return nil
	}
	var list []step
	before := stepBounds{start: true, known: true}
	for i, s := range d.Escalate {
		p := document.ItemPointer("/escalate", i)
		c.step(p, d, i)
		compiled := c.when(p, s)
		compiled.of, compiled.within = c.calendar(p+"/of", s.Of), c.calendar(p+"/within", s.Within)
		compiled.name, compiled.severity = s.Name, s.Severity
		compiled.text = c.template(p+"/text", s.Text, c.over(inText))
		before = c.checkOrder(p, s, before)
		compiled.turns, compiled.nags = d.RepeatCount(i), s.Until != ""
		for compiled.turn = 1; compiled.turn <= compiled.turns; compiled.turn++ {
			list = append(list, compiled)
		}
	}
	return list
}

func (c stepCompiler) step(pointer string, d document.Document, i int) {
	s := d.Escalate[i]
	if !document.NamePattern.MatchString(s.Name) {
		c.problem(pointer+"/step", "%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, such as primary", clip(s.Name, 80))
	}
	before := d.Escalate[:i]
	if j := slices.IndexFunc(before, func(b document.Step) bool { return b.Name == s.Name }); j >= 0 {
		c.problem(pointer+"/step", "step %d is named %q too; names of steps are unique", j+1, clip(s.Name, 80))
	}
	c.choice(pointer+"/severity", "a severity", string(s.Severity), document.Severities)
	c.until(pointer, s, before)
}

// until checks the fields of a step that is repeated until a user acknowledges.
func (c stepCompiler) until(pointer string, s document.Step, before []document.Step) {
	if s.Until != "" {
		c.choice(pointer+"/until", "until when a step can be repeated", s.Until, document.UntilValues)
	}
	again := slices.IndexFunc(before, func(b document.Step) bool { return b.Until != "" })
	switch {
	case again < 0 && s.Until == "":
	case s.Until != "" && s.Times > 0:
		c.problem(pointer+"/until", "times and until exclude each other; keep one of them")
	case s.Until != "" && s.Every == 0:
		c.problem(pointer+"/until", "until needs every; write every: 15m, or remove until")
	case again >= 0 && (s.Until != "" || s.Every > 0):
		c.problem(pointer+"/every", "step %d is repeated until it is acknowledged, so that no later step can count from it; write after: instead of every:", again+1)
	}
}

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

// when compiles the time of a step, given by exactly one field.
func (c stepCompiler) when(pointer string, s document.Step) step {
	after := s.After != document.Delay{}
	if s.After.AtOnce && c.document.Trigger.Heartbeat == nil {
		c.problem(pointer+"/after", "%s is not a time for this step, because the job has only begun then; write how long to wait, such as after: 3h. Only the first step of a heartbeat can be due at once", s.After)
	}
	switch set := countOf(after, s.At != "", s.Every > 0); {
	case set == 0 && s.Times > 0:
		c.problem(pointer+"/every", "times needs every; write every: 24h, or remove times")
	case set == 0:
		c.problem(pointer+"/after", "the step has no time; write after, at or every, such as after: 3h")
	case set > 1:
		c.problem(pointer, "after, at and every exclude each other; keep one of them")
		return step{}
	case s.Every > 0 && s.Times == 0 && s.Until == "":
		c.problem(pointer+"/times", "every needs times or until; write times: 3, or until: acknowledged")
	case s.Every == 0 && s.Times > 0:
		c.problem(pointer+"/times", "times needs every; write every: instead of %s", afterOrAt(after))
	case s.Times > document.MaxTurns:
		c.problem(pointer+"/times", "%d is not between 1 and %d", s.Times, document.MaxTurns)
	}
	compiled := step{after: time.Duration(s.After.Fixed), every: s.Every > 0}
	if compiled.every {
		compiled.after = time.Duration(s.Every)
	}
	compiled.computed = c.after(pointer+"/after", s.After.Computed, c.over(inAfter))
	compiled.at = c.at(pointer+"/at", s.At, c.over(inAt))
	if c.ticking != nil && timeOfDay.MatchString(s.At) {
		compiled.clock = &clock{s.At, c.ticking.zone}
	}
	if s.At != "" && s.Of != "" {
		c.problem(pointer+"/of", "of counts a span, but at is an instant; write within, or after instead of at")
	}
	return compiled
}

// countOf returns how many of the values are true.
func countOf(all ...bool) int {
	n := 0
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

func afterOrAt(after bool) string {
	if after {
		return "after"
	}
	return "at"
}

var stepNamePattern = regexp.MustCompile(`^[A-Za-z]+$`)

// after compiles a computed span.
func (c stepCompiler) after(pointer, source string, d exprEnv) *expression {
	if stepNamePattern.MatchString(source) && d.names[source] == nil {
		_, err := document.ParseDuration(source)
		c.problem(pointer, "%v; or an expression such as hours(event.sla_hours)", err)
		return nil
	}
	return c.expression(pointer, source, d)
}

// at compiles an instant. The instant of a schedule is a time of day.
func (c stepCompiler) at(pointer, source string, d exprEnv) *expression {
	scheduled := c.document.Trigger.Schedule != ""
	switch is := timeOfDay.MatchString(source); {
	case source == "" || scheduled && is:
		return nil
	case scheduled:
		if span := strings.TrimSpace(source); isLongerThanZero(span) {
			c.problem(pointer, `%q is a duration, but at is a time of day; write after: %s, or at: "09:00"`, clip(span, 40), clip(span, 40))
			return nil
		}
		c.problem(pointer, `%q is not a time of day; in a rule with a schedule, at is a time of day, such as at: "09:00"`, clip(source, 40))
		return nil
	case isLongerThanZero(source):
		c.problem(pointer, "%q is a duration, but at is an instant; write after: %[1]s", clip(source, 40))
		return nil
	case spanCall(strings.TrimLeft(source, "+- ")) != "" && source != "0":
		c.problem(pointer, "%q is a duration, but at is an instant; write one such as date(event.due_at) - %s", clip(source, 40), spanCall(strings.TrimLeft(source, "+- ")))
		return nil
	case is:
		c.problem(pointer, `%q is a time of day, which only a rule with a schedule can use; write an instant such as date(event.due_at) - hours(1)`, source)
		return nil
	}
	return c.expression(pointer, source, d)
}

// isLongerThanZero reports whether a text is a duration that a step can wait.
func isLongerThanZero(text string) bool {
	span, err := document.ParseDuration(text)
	return err == nil && span > 0
}

// calendar returns the named calendar; nil for no name, and if the defined calendars are unknown.
func (c stepCompiler) calendar(pointer, name string) *calendars.Calendar {
	if name == "" {
		return nil
	}
	if !document.NamePattern.MatchString(name) {
		c.name(pointer, name, "office")
		return nil
	}
	if own, isOwn := c.own[name]; isOwn {
		return own
	}
	found := c.calendars[name]
	if found == nil && c.calendars != nil {
		c.problem(pointer, "%s", c.noCalendar(name))
	}
	return found
}

func (c stepCompiler) noCalendar(name string) string {
	known := slices.AppendSeq(slices.Collect(maps.Keys(c.calendars)), maps.Keys(c.own))
	slices.Sort(known)
	known = slices.Compact(known)
	switch near := configfile.Suggest(name, known); {
	case near != "":
		return fmt.Sprintf("unknown calendar %q; did you mean %q?", name, near)
	case len(known) == 0:
		return fmt.Sprintf("unknown calendar %q, and there is no calendar; define it under calendars in the rule, save one with deadman calendar apply or on the page Calendars, or remove this field", name)
	}
	return fmt.Sprintf("unknown calendar %q; defined are %s", name, clip(strings.Join(known, ", "), 200))
}

// stepBounds is the time of a step, as far as it is known when the rule is saved.
type stepBounds struct {
	start bool
	at    document.Duration // since the job began, at least
	known bool              // exactly, in the time that of counts
	of    string
}

// unknownTime is the time of a computed step: it may be before any other.
const unknownTime = document.Duration(math.MinInt64 / 2)

// checkOrder refuses a step that is not after the one before, and a step beyond the horizon, if the times of both are
// literal. It records how close they are to each other.
func (c stepCompiler) checkOrder(pointer string, s document.Step, before stepBounds) stepBounds {
	here := stepBounds{at: unknownTime, of: s.Of}
	counted := before.start || before.of == s.Of // in the same time
	switch {
	case s.After.AtOnce && s.Every == 0:
		here.at, here.known = 0, true
		if !before.start {
			c.problem(pointer+"/after", "0s is not after the step before; order the steps by their times")
		}
	case s.After.Fixed > 0 && s.Every == 0:
		here.at, here.known = s.After.Fixed, true
		pointer += "/after"
		if before.at > 0 && here.at <= before.at && (s.Of == "" || before.known && counted) {
			c.problem(pointer, "%s is not after the step before, %s; order the steps by their times", here.at, before.at)
		} else if before.known && counted && !before.start {
			c.checkSpacing(here.at - before.at)
		}
	case s.Every > 0 && s.After == document.Delay{}:
		here.at, here.known = before.at+repeated(s.Every, s.Times), before.known && counted
		pointer += "/every"
		c.checkSpacing(s.Every)
	}
	if horizon := c.document.Guards.Horizon; here.at > horizon && horizon > 0 {
		c.problem(pointer, "%s is beyond the horizon, %s; raise guards.horizon or shorten it", lasting(s, here.at), horizon)
	}
	return here
}

// lasting returns how long it takes until the last repetition of a step.
func lasting(s document.Step, at document.Duration) string {
	if s.Times > 1 {
		return fmt.Sprintf("the last of %d turns comes after %s, which", s.Times, atMost(at))
	}
	return atMost(at)
}

// repeated returns n times the span, or a little more than the longest span that is allowed.
func repeated(span document.Duration, n int) document.Duration {
	if n = max(1, min(n, document.MaxTurns)); span > document.MaxDuration/document.Duration(n) {
		return document.MaxDuration + 1
	}
	return span * document.Duration(n)
}

// when returns when the step is due, whether or not its calendar is open then. before is the time of the step before
// it.
func (s *step) when(w jobContext, before time.Time) (time.Time, error) {
	switch {
	case s.at != nil:
		return s.at.instant(w.scope)
	case s.clock != nil:
		return schedules.TimeOfDay(w.since, s.clock.shows, s.clock.zone)
	}
	span, err := s.span(w.scope)
	if err != nil {
		return time.Time{}, err
	}
	if s.every {
		return passed(s.of, before, span, w.pauses), nil
	}
	return passed(s.of, w.from, span, w.pauses), nil
}

// passedUntilDue returns how much of the calendar's time passed from the beginning of the job until the step was due.
// Pauses do not count. It is of no use for a step that is due at an instant.
func (m stepTime) passedUntilDue(w jobContext) time.Duration {
	span, from := time.Duration(0), w.since
	for _, p := range w.pauses {
		if p.From.After(from) {
			span += m.of.Between(from, earliest(p.From, m.due))
		}
		from = latest(from, p.To)
	}
	return span + m.of.Between(from, latest(from, m.due))
}

// dueText returns the instant of a step as a sentence shows it: in the zone of the schedule, to the minute if it has no
// seconds, and without the date on the day of the job's beginning.
func (m stepTime) dueText(since time.Time) string {
	zone := time.UTC
	if m.clock != nil {
		zone = m.clock.zone
	}
	at, layout := m.due.In(zone), "15:04 MST"
	if at.Second() != 0 {
		layout = "15:04:05 MST"
	}
	if at.Format(time.DateOnly) != since.In(zone).Format(time.DateOnly) {
		layout = time.DateOnly + " " + layout
	}
	return at.Format(layout)
}

// span returns how long after the step before the step is due.
func (s *step) span(in scope) (time.Duration, error) {
	if s.computed == nil {
		return s.after, nil
	}
	return s.computed.span(in)
}

// called returns the step's name with its repetition, if it has several. The total is left out for a step that is
// repeated until a user acknowledges.
func (m stepTime) called() string {
	switch {
	case m.nags:
		return fmt.Sprintf("%s %d", m.name, m.turn)
	case m.turns > 1:
		return fmt.Sprintf("%s %d of %d", m.name, m.turn, m.turns)
	}
	return m.name
}

// repetition returns the step's name with its repetition; empty for a step that is not repeated.
func (m stepTime) repetition() string {
	if !m.nags && m.turns <= 1 {
		return ""
	}
	return m.called()
}

// step is one repetition of a step. It is due a span after the job began or, with every, after the step before; or at
// an instant.
type step struct {
	after    time.Duration
	every    bool
	computed *expression // yields the span, replaces after; nil: after
	at       *expression // yields an instant; nil: a span
	clock    *clock      // names an instant; nil: a span

	of     *calendars.Calendar // counts the span; nil: all time counts
	within *calendars.Calendar // while it is closed the step is postponed until it opens; nil: always open

	name     string
	severity alerts.Severity
	text     *template // nil: a default sentence made from the rule
	turn     int       // from 1, of turns; both 1 for a step that is not repeated
	turns    int
	nags     bool // it is repeated until a user acknowledges
}

// isMovable reports whether a calendar or an expression determines when the step is due: its time may change while a job waits.
func (s *step) isMovable() bool {
	return s.computed != nil || s.at != nil || s.of != nil || s.within != nil
}

// clock is a time of day in a zone, after a tick.
type clock struct {
	shows string // such as 09:00
	zone  *time.Location
}
