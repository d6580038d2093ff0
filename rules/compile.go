package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/guards"
)

// Bounds of a document.
const (
	MaxSteps       = 32
	MaxResolves    = 32
	MaxLabels      = 32
	MaxDescription = 4 << 10 // bytes
	maxLabel       = 256     // bytes
	maxChecks      = 10_000
	maxAttempts    = 100
	longest        = Duration(3650 * 24 * time.Hour)
	longestCheck   = Duration(10 * time.Minute)
)

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	entityPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	labelPattern  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)
)

const nameHint = "1 to 63 of a-z, 0-9, _ and -, beginning with a letter or digit, such as order-unshipped"

// Compile checks what a document means and makes it ready to be asked. The error is
// Problems, without places in a text; Parse has those. Of saved, the id, the version and
// what it reads count.
func Compile(d Document, saved Saved) (*Rule, error) {
	r, problems := compile(d, saved)
	if err := problems.orNil(); err != nil {
		for i := range problems {
			problems[i].Rule = d.Name
		}
		return nil, err
	}
	return r, nil
}

// compiler collects what is wrong on its way through a document.
type compiler struct{ problems Problems }

func (c *compiler) problem(pointer, format string, args ...any) {
	c.problems = append(c.problems, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
}

// must notes the error as a problem of the field.
func (c *compiler) must(pointer string, err error) {
	if err != nil {
		c.problem(pointer, "%s", err.Error())
	}
}

func compile(d Document, saved Saved) (*Rule, Problems) {
	c := &compiler{}
	r := &Rule{document: d}
	c.names(d)
	r.trigger = c.trigger(d.Trigger)
	r.resolves = c.resolves(d)
	r.while = c.expression("/while", d.While, inWhile)
	r.steps = c.steps(d)
	grid := c.times(d)
	c.guards(d)
	c.labels(d.Labels)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	r.engine = futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: d.Name, Entity: d.Entity,
		Grid: grid, Labels: d.Labels, Handler: handler{r}, Loudest: loudest(d.Escalate),
		Limits: guards.Limits{
			Timeout: time.Duration(d.Guards.Timeout), Attempts: d.Guards.Attempts, MaxChecks: d.Guards.MaxChecks,
			Horizon: time.Duration(d.Guards.Horizon), End: d.Guards.End,
		},
		Streams: d.waitsFor(saved.Reads),
	}
	if !d.Quiet {
		r.engine.Closing = func(j futurejobs.Job, text string) alerts.Draft { return r.closes(j.Step, text) }
	}
	return r, nil
}

func (c *compiler) names(d Document) {
	switch {
	case d.Name == "":
		c.problem("/name", "the rule has no name; write name: and %s", nameHint)
	case !namePattern.MatchString(d.Name):
		c.problem("/name", "%q is not a name; write %s", clip(d.Name, 80), nameHint)
	}
	switch {
	case d.Entity == "":
		c.problem("/entity", "the rule has no entity; name the kind of thing it watches, such as entity: order")
	case !entityPattern.MatchString(d.Entity):
		c.problem("/entity", "%q is not an entity; write 1 to 63 letters, digits, dots, _ and -, such as order", clip(d.Entity, 80))
	}
	if len(d.Description) > MaxDescription {
		c.problem("/description", "the description has %d bytes, the most is %d", len(d.Description), MaxDescription)
	}
}

// expression compiles what is there; nothing there is nil.
func (c *compiler) expression(pointer, source string, d dialect) *expression {
	if source == "" {
		return nil
	}
	x, err := compileExpression(source, d)
	c.must(pointer, err)
	return x
}

func (c *compiler) subject(pointer, subject, purpose string) {
	if subject == "" {
		c.problem(pointer, "the event is missing; name the subject that %s, such as orders.created", purpose)
	} else if wrong := checkSubject(subject); wrong != "" {
		c.problem(pointer, "%s", wrong)
	}
}

func (c *compiler) key(pointer, source string) *expression {
	if source == "" {
		c.problem(pointer, "the key is missing; say which entity the event is about, such as key: event.id")
	}
	return c.expression(pointer, source, inKey)
}

func (c *compiler) trigger(t Trigger) watch {
	if t == (Trigger{}) {
		c.problem("/trigger", "the trigger is missing; write trigger: {event: orders.created, key: event.id}")
		return watch{}
	}
	c.subject("/trigger/event", t.Event, "begins the wait")
	return watch{
		subject: t.Event,
		key:     c.key("/trigger/key", t.Key),
		cond:    c.expression("/trigger/if", t.If, inIf),
		since:   c.expression("/trigger/since", t.Since, inSince),
	}
}

// reserved are the outcomes that a rule can't claim.
var reserved = []checks.Outcome{
	checks.Cleared, checks.Exhausted, checks.Restarted, checks.Expired, checks.RuleDeleted, checks.Undetermined,
	checks.GuardTimeout, checks.GuardMaxChecks, checks.GuardHorizon, checks.GuardPast,
}

func (c *compiler) resolves(d Document) []watch {
	if len(d.Resolve) > MaxResolves {
		c.problem("/resolve", "%d events resolve, the most is %d; use a wildcard", len(d.Resolve), MaxResolves)
		return nil
	}
	var list []watch
	for i, s := range d.Resolve {
		p := item("/resolve", i)
		c.subject(p+"/event", s.Event, "ends the wait")
		w := watch{
			subject: s.Event,
			key:     c.key(p+"/key", s.Key),
			cond:    c.expression(p+"/if", s.If, inIf),
			outcome: checks.Outcome(s.As),
		}
		switch {
		case s.As == "":
			w.outcome = checks.Resolved
		case !namePattern.MatchString(s.As):
			c.problem(p+"/as", "%q is not an outcome; write %s", clip(s.As, 80), "a word such as cancelled")
		case slices.Contains(reserved, w.outcome):
			c.problem(p+"/as", "%q is reserved for what happens without an event; write another word, such as done", s.As)
		}
		if s.If == "" && s.Key == d.Trigger.Key && s.Event != "" && covers(s.Event, d.Trigger.Event) {
			c.problem(p+"/event", "every event that begins the wait also ends it, so nothing is ever said; give the trigger or the resolve an if")
		}
		list = append(list, w)
	}
	return list
}

func (c *compiler) steps(d Document) []step {
	if len(d.Escalate) == 0 {
		c.problem("/escalate", "there are no steps, so nothing is ever said; write escalate: [{after: 3h, step: primary}]")
	}
	if len(d.Escalate) > MaxSteps {
		c.problem("/escalate", "%d steps, the most is %d", len(d.Escalate), MaxSteps)
		return nil
	}
	var list []step
	for i, s := range d.Escalate {
		p := item("/escalate", i)
		c.after(p+"/after", d, i)
		c.step(p, d, i)
		var text *template
		if s.Text != "" {
			var err error
			text, err = compileTemplate(s.Text)
			c.must(p+"/text", err)
		}
		list = append(list, step{after: time.Duration(s.After), name: s.Name, severity: s.Severity, text: text})
	}
	return list
}

func (c *compiler) after(pointer string, d Document, i int) {
	after := d.Escalate[i].After
	switch {
	case after <= 0:
		c.problem(pointer, `a step needs a time after which it is taken, such as after: 3h`)
	case after > d.Guards.Horizon && d.Guards.Horizon > 0:
		c.problem(pointer, "%s is beyond the horizon, %s; raise guards.horizon or shorten it", after, d.Guards.Horizon)
	case i > 0 && after <= d.Escalate[i-1].After:
		c.problem(pointer, "%s is not after the step before, %s; steps have to rise", after, d.Escalate[i-1].After)
	}
}

func (c *compiler) step(pointer string, d Document, i int) {
	s := d.Escalate[i]
	if !namePattern.MatchString(s.Name) {
		c.problem(pointer+"/step", "%q is not a name; write 1 to 63 of a-z, 0-9, _ and -, such as primary", clip(s.Name, 80))
	}
	before := d.Escalate[:i]
	if j := slices.IndexFunc(before, func(b Step) bool { return b.Name == s.Name }); j >= 0 {
		c.problem(pointer+"/step", "step %d is named %q too; names of steps are unique", j+1, clip(s.Name, 80))
	}
	if !s.Severity.Valid() {
		severities := []string{string(alerts.Info), string(alerts.Warning), string(alerts.Error), string(alerts.Critical)}
		message := fmt.Sprintf("%q is not a severity; write one of %s", clip(string(s.Severity), 40), strings.Join(severities, ", "))
		if near := Nearest(string(s.Severity), severities); near != "" {
			message = fmt.Sprintf("%q is not a severity; did you mean %q?", clip(string(s.Severity), 40), near)
		}
		c.problem(pointer+"/severity", "%s", message)
	}
}

func (c *compiler) times(d Document) futurejobs.Grid {
	grid, err := futurejobs.NewGrid(time.Duration(d.Slot))
	c.must("/slot", err)
	if d.Hold < 0 || d.Hold > longest {
		c.problem("/hold", "%s is not between 0 and %s", d.Hold, longest)
	}
	return grid
}

func (c *compiler) guards(d Document) {
	g := d.Guards
	if g.Timeout <= 0 || g.Timeout > longestCheck {
		c.problem("/guards/timeout", "%s is not between 1ms and %s", g.Timeout, longestCheck)
	}
	if g.Attempts < 1 || g.Attempts > maxAttempts {
		c.problem("/guards/attempts", "%d is not between 1 and %d", g.Attempts, maxAttempts)
	}
	if g.Horizon <= 0 || g.Horizon > longest {
		c.problem("/guards/horizon", "%s is not between 1s and %s", g.Horizon, longest)
	}
	need, why := len(d.Escalate), ""
	if d.held() {
		need, why = need+1, " and the one that ends the hold"
	}
	switch {
	case g.MaxChecks > maxChecks:
		c.problem("/guards/max_checks", "%d is more than %d", g.MaxChecks, maxChecks)
	case g.MaxChecks < need:
		c.problem("/guards/max_checks", "%d checks are fewer than the %d that the steps%s take; write %d or more", g.MaxChecks, need, why, need)
	}
}

func (c *compiler) labels(labels map[string]string) {
	if len(labels) > MaxLabels {
		c.problem("/labels", "%d labels, the most is %d", len(labels), MaxLabels)
	}
	for name, value := range labels {
		p := under("/labels", name)
		switch {
		case !labelPattern.MatchString(name):
			c.problem(p, "%q is not a label; write letters, digits, dots, _ and -, beginning with a letter", clip(name, 80))
		case len(value) > maxLabel || !utf8.ValidString(value):
			c.problem(p, "the label has %d bytes, the most is %d", len(value), maxLabel)
		case strings.Contains(value, "{{"):
			c.problem(p, "expressions in labels are not supported yet by this version; write plain text")
		}
	}
}

// waitsFor are the streams that can end a wait of the rule, each once, sorted.
func (d Document) waitsFor(reads []Read) []string {
	var streams []string
	for _, read := range reads {
		if slices.ContainsFunc(d.Resolve, func(s Resolve) bool { return s.Event == read.Subject }) {
			streams = append(streams, read.Stream)
		}
	}
	slices.Sort(streams)
	return slices.Compact(streams)
}

// loudest is the highest severity of the steps.
func loudest(steps []Step) alerts.Severity {
	order := []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}
	at := 0
	for _, s := range steps {
		at = max(at, slices.Index(order, s.Severity))
	}
	return order[at]
}
