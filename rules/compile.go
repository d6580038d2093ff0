package rules

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"deadman/rules/document"

	"deadman/alerts"
	futurejobs "deadman/future_jobs"
	"deadman/internal/calendars"
	"deadman/internal/configfile"
)

// The longest durations of a document.
const (
	longestCheck   = document.Duration(600e9)
	longestEarly   = document.Duration(futurejobs.Day)
	longestRetry   = document.Duration(futurejobs.Day)
	longestCatchUp = document.Duration(365 * futurejobs.Day)
)

// Compile checks the meaning of a document and prepares it for evaluation. The error is Problems, without places in a
// text; Parse has those. Of saved, it uses the id, the version and the reads. known are the defined calendars; if it is
// nil, they are unknown, and only the form of a step's calendar name is checked: such a rule must not run. Nor can a
// rule run that queries a source or has a handler.
func Compile(d document.Document, saved RuleVersion, known calendars.Set) (*Rule, error) {
	return compileAmid(d, saved, environment{calendars: known})
}

// compileAmid is Compile for a rule that uses sources or handlers.
func compileAmid(d document.Document, saved RuleVersion, env environment) (*Rule, error) {
	env.bounds = saved.Bounds
	r, problems := compile(d, saved, env, nil)
	if err := problems.OrNil(); err != nil {
		for i := range problems {
			problems[i].Rule = d.Name
		}
		return nil, err
	}
	return r, nil
}

// The approximate memory of parts of a compiled rule, in bytes; measured, see TestWeight.
const (
	weightOfRule        = 3 << 10
	weightOfStep        = 500
	weightOfPattern     = 250 // of each unit of its size
	weightOfExpression  = 1000
	weightOfInstruction = 180
)

// compiler collects the problems of a document.
type compiler struct {
	document document.Document
	environment
	columns  document.Shape  // the columns of the lookup; nil: unknown
	single   map[string]bool // lists that were written as the one mapping they hold
	watched  []watched
	beats    *heartbeat        // the heartbeat of the trigger; nil: another trigger
	ticking  *ticking          // nil: the rule does not tick
	closest  document.Duration // the shortest literal time between two checks; 0: there is none
	readings []reading
	patterns int // the remaining size for the rule's patterns
	weight   int // of the rule's expressions, in bytes
	problems document.Problems
}

// watched is an event that the rule reads.
type watched struct {
	subject string
	shape   document.Shape
	pointer string
	merged  bool // into the state
}

func (c *compiler) problem(pointer, format string, args ...any) {
	if len(c.problems) > document.MaxProblems {
		return
	}
	p := document.Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// require adds the error as a problem of the field.
func (c *compiler) require(pointer string, err error) {
	if err != nil {
		c.problem(pointer, "%s", err.Error())
	}
}

// item returns the pointer of a list's item, as the list was written.
func (c *compiler) item(pointer string, i int) string {
	if c.single[pointer] {
		return pointer
	}
	return document.ItemPointer(pointer, i)
}

func compile(d document.Document, saved RuleVersion, env environment, single map[string]bool) (*Rule, document.Problems) {
	return newCompiler(d, env, single, maxRulePatterns).rule(saved)
}

// newCompiler returns a compiler for a document whose patterns may have the given size.
func newCompiler(d document.Document, env environment, single map[string]bool, patterns int) *compiler {
	return &compiler{document: d, environment: env, single: single, patterns: patterns}
}

func (c *compiler) rule(saved RuleVersion) (*Rule, document.Problems) {
	d := c.document
	r := &Rule{document: d}
	c.names(d)
	events := subscriptionCompiler{c}
	r.trigger = events.trigger(d.Trigger)
	r.ticking = c.ticking
	r.updates = events.watches("/update", d.Update, "updates the state")
	r.resolves = events.resolves(d, saved.Sets)
	r.pauses = events.pauses(d)
	r.question = lookupCompiler{c}.lookup(d.Lookup)
	r.while = c.expression("/while", d.While, c.over(inWhile))
	recheck := c.expression("/recheck", d.Recheck, c.over(inRecheck))
	c.handler(d)
	steps := stepCompiler{compiler: c}.steps(d)
	heartbeatCompiler{events}.checkHeartbeatSource(d, steps)
	grid := c.times(d)
	c.spread(d)
	retentionCompiler{c}.retention()
	guardCompiler{c}.guards()
	labels := c.labels(d.Labels)
	c.shapes(d)
	c.problems = append(c.problems, outOf(d, c.bounds)...)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	r.escalation = newEscalation(d, grid, escalation{heartbeat: c.beats, steps: steps, recheck: recheck})
	r.alertWriter = newAlertWriter(&r.document, r.escalation, labels)
	r.newEngineRule(saved, grid, c.environment)
	r.weight = c.weight + weightOfRule + weightOfStep*len(r.steps) + weightOfPattern*(maxRulePatterns-c.patterns)
	return r, nil
}

func (c *compiler) names(d document.Document) {
	switch {
	case d.Name == "":
		c.problem("/name", "the rule has no name; write one of %s, such as name: order-unshipped", document.NameForm)
	case d.Name == alerts.SystemRule:
		c.problem("/name", "%q is reserved for deadman's own alerts; use another name", d.Name)
	case !document.NamePattern.MatchString(d.Name):
		c.problem("/name", "%q is not a name; write %s", clip(d.Name, 80), document.NameForm+", such as order-unshipped")
	}
	switch {
	case d.Entity == "":
		c.problem("/entity", "the rule has no entity; write the kind of its entities, such as entity: order")
	case !document.EntityPattern.MatchString(d.Entity):
		c.problem("/entity", "%q is not an entity; write 1 to 63 letters, digits, dots, _ and -, such as order", clip(d.Entity, 80))
	}
	if len(d.Description) > document.MaxDescription {
		c.problem("/description", "the description has %d bytes, the most is %d", len(d.Description), document.MaxDescription)
	}
}

// name adds a problem if the text is no valid name; example is a valid one.
func (c *compiler) name(pointer, name, example string) {
	if !document.NamePattern.MatchString(name) {
		c.problem(pointer, "%q is not a name; write %s, such as %s", clip(name, 80), document.NameForm, example)
	}
}

// expression compiles a source; an empty source is nil.
func (c *compiler) expression(pointer, source string, d exprEnv) *expression {
	if source == "" {
		return nil
	}
	d.patterns, d.ended = &c.patterns, c.ended
	x, err := compileExpression(source, d)
	c.require(pointer, err)
	c.read(pointer, x)
	return x
}

// over returns the environment over the event that creates a job, if an event does.
func (c *compiler) over(d exprEnv) exprEnv {
	switch t := c.document.Trigger; {
	case t.Heartbeat != nil && t.Heartbeat.Event == "":
		return d.withSubject(pings)
	case t.Schedule == "":
		return d.withSubject(t.Subject())
	}
	return d.withoutEvent()
}

// template compiles a source; an empty source is nil.
func (c *compiler) template(pointer, source string, d exprEnv) *template {
	if source == "" {
		return nil
	}
	d.patterns, d.ended = &c.patterns, c.ended
	t, err := compileTemplate(source, d)
	c.require(pointer, err)
	if err != nil {
		return nil
	}
	for _, p := range t.parts {
		c.read(pointer, p.x)
	}
	return t
}

// read records the kinds that an expression assumes for the fields that it reads.
func (c *compiler) read(pointer string, x *expression) {
	if x == nil {
		return
	}
	c.weight += x.weight()
	for _, u := range x.uses {
		r := reading{fieldUse: u, pointer: pointer}
		if !u.state {
			r.subject = x.dialect.subject
		}
		c.readings = append(c.readings, r)
	}
}

// choice adds a problem if the word is not one of words.
func (c *compiler) choice(pointer, noun, word string, words []string) {
	if !slices.Contains(words, word) {
		c.problem(pointer, "%s", configfile.NotOneOf(noun, word, words))
	}
}

func (c *compiler) handler(d document.Document) {
	if d.Handler == "" {
		if d.AtMostOnce {
			c.problem("/at_most_once", "at_most_once needs a handler, because checks without one have no effects; add handler, or remove at_most_once")
		}
		return
	}
	c.name("/handler", d.Handler, "shipping-checks")
	for _, field := range []struct {
		name    string
		written bool
	}{{"while", d.While != ""}, {"escalate", len(d.Escalate) > 0}, {"recheck", d.Recheck != ""}} {
		if field.written {
			c.problem("/"+field.name, "the rule has a handler, which replaces %s; remove one of the two", field.name)
		}
	}
}

func (c *compiler) times(d document.Document) futurejobs.Grid {
	grid, err := futurejobs.NewGrid(time.Duration(d.Slot))
	c.require("/slot", err)
	if d.Hold < 0 || d.Hold > document.MaxDuration {
		c.problem("/hold", "%s is not between 0 and %s", d.Hold, document.MaxDuration)
	}
	if d.Early < 0 || d.Early > longestEarly {
		c.problem("/early", "%s is not between 0 and %s", d.Early, longestEarly)
	}
	if d.Again != "" { // a version from before this field existed
		c.choice("/again", "a value of again", string(d.Again), document.AgainValues)
	}
	if d.CatchUp != (document.CatchUp{}) { // likewise
		c.choice("/catch_up/do", "a value of catch_up.do", string(d.CatchUp.Do), document.LateValues)
		if d.CatchUp.Do == document.All && !d.Trigger.IsStored() {
			c.problem("/catch_up/do", `all is for stored schedules, with schedule: "@stored"; write run, skip or expire`)
		}
		if after := d.CatchUp.After; after < d.Slot || after > longestCatchUp {
			c.problem("/catch_up/after", "%s is not between the slot, %s, and %s", after, d.Slot, longestCatchUp)
		}
	}
	return grid
}

func (c *compiler) labels(labels map[string]string) []label {
	if len(labels) > document.MaxLabels {
		c.problem("/labels", "%d labels, the most is %d", len(labels), document.MaxLabels)
	}
	var list []label
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		p, value := document.FieldPointer("/labels", name), labels[name]
		switch {
		case !alerts.LabelPattern.MatchString(name):
			c.problem(p, "%q is not a label; write letters, digits, dots, _ and -, beginning with a letter", clip(name, 80))
		case len(value) > document.MaxLabel:
			c.problem(p, "the label has %d bytes, the most is %d", len(value), document.MaxLabel)
		}
		compiled := c.template(p, value, c.over(inLabel))
		if compiled == nil {
			compiled = &template{}
		}
		list = append(list, label{name, compiled})
	}
	return list
}

// checkSpacing records the distance between two checks with literal times.
func (c *compiler) checkSpacing(span document.Duration) {
	if c.closest == 0 || span < c.closest {
		c.closest = span
	}
}

func (c *compiler) shapes(d document.Document) {
	s := &shapes{compiler: c, declared: make(map[string]declared), first: make(map[string]reading)}
	s.declare(c.watched)
	if d.Lookup == nil {
		s.merged = stateful(c.watched)
	} else {
		s.under = stateful(c.watched)
	}
	loose := s.loose()
	for _, r := range c.readings {
		if !s.fits(r) && !loose[s.place(r)] {
			s.agree(r)
		}
	}
}

// spread checks the span of the rule's spread.
func (c *compiler) spread(d document.Document) {
	switch {
	case d.Spread == 0:
	case d.Spread < 0 || d.Spread > maxSpread:
		c.problem("/spread", "%s is not between 0 and %s", d.Spread, maxSpread)
	case d.Handler != "":
		c.problem("/spread", "the rule has a handler, which decides the times of its checks; remove spread")
	case d.Spread < 2*d.Slot:
		c.problem("/spread", "%s is less than two slots of %s; write %s or more, or a smaller slot", d.Spread, d.Slot, 2*d.Slot)
	}
}

// maxSpread bounds the intentional delay of a step.
const maxSpread = document.Duration(futurejobs.Day)
