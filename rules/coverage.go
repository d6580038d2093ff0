package rules

import (
	"fmt"

	"deadman/rules/document"
)

// Coverage counts how tests use the parts of rules: events that match a subscription, branches of expressions, and steps
// that raise an alert. It is not safe for concurrent use.
type Coverage struct {
	// Observe receives each evaluation of a branch; nil: not observed.
	Observe func(Evaluation)

	points []*Point
	index  map[pointKey]*Point
}

// Point is a part of a rule that tests can use.
type Point struct {
	Rule      string    `json:"rule"`
	Field     string    `json:"field"` // such as resolve[1].if
	Kind      PointKind `json:"kind"`
	Condition string    `json:"condition,omitempty"` // of a branch
	Hits      int       `json:"hits"`                // of a branch, how often it was true
	Misses    int       `json:"misses,omitempty"`    // of a branch, how often it was false
}

// PointKind is a kind of a part.
type PointKind string

// The kinds of parts.
const (
	StepPoint   PointKind = "step"   // it is used if it raises an alert
	EventPoint  PointKind = "event"  // a subscription; it is used if an event matches it
	BranchPoint PointKind = "branch" // a condition, or an operand of one; it has to be true once, and false once
)

// Goals returns how many uses cover the part, and how many of them there were.
func (p Point) Goals() (reached, all int) {
	all = 1
	if p.Hits > 0 {
		reached++
	}
	if p.Kind == BranchPoint {
		all++
		if p.Misses > 0 {
			reached++
		}
	}
	return reached, all
}

// Evaluation is one evaluation of a branch.
type Evaluation struct {
	Rule, Field string
	Condition   string
	Holds       bool
	Values      string // the values that it read; empty: none
}

type pointKey struct{ rule, field, condition string }

// NewCoverage returns a coverage without a part.
func NewCoverage() *Coverage { return &Coverage{index: make(map[pointKey]*Point)} }

// Points returns the parts of the rules, in the order in which the rules were traced.
func (c *Coverage) Points() []*Point { return c.points }

// StepRaised counts an alert of a step.
func (c *Coverage) StepRaised(rule, step string) {
	if p := c.index[pointKey{rule, stepField(step), ""}]; p != nil {
		p.Hits++
	}
}

func stepField(step string) string { return "step " + step }

// point returns a part, and adds it if it is new.
func (c *Coverage) point(p Point) *Point {
	key := pointKey{p.Rule, p.Field, p.Condition}
	known := c.index[key]
	if known == nil {
		known = &p
		c.index[key] = known
		c.points = append(c.points, known)
	}
	return known
}

// Trace counts the use of the rule from now on. It is called before the rule is used.
func (r *Rule) Trace(c *Coverage) {
	t := tracer{c, r.engine.Name}
	d := r.document
	trigger := "trigger"
	if d.Trigger.Heartbeat != nil {
		trigger = "trigger.heartbeat"
	}
	t.subscription(trigger, &r.trigger)
	for i := range r.updates {
		t.subscription(fmt.Sprintf("update[%d]", i), &r.updates[i])
	}
	for i := range r.resolves {
		t.subscription(fmt.Sprintf("resolve[%d]", i), &r.resolves[i])
	}
	fields := pauseFields(d)
	for i := range r.pauses {
		t.subscription(fields[i], &r.pauses[i])
	}
	t.condition("while", r.while)
	t.expression("recheck", r.recheck)
	for _, s := range d.Steps() {
		c.point(Point{Rule: t.rule, Field: stepField(s.Name), Kind: StepPoint})
	}
	for i := range r.steps {
		s, field := &r.steps[i], stepField(r.steps[i].name)
		t.expression(field+" after", s.computed)
		t.expression(field+" at", s.at)
		t.template(field+" text", s.text)
	}
	for _, l := range r.alertWriter.labels {
		t.template("labels."+l.name, l.text)
	}
}

// pauseFields returns the fields of the subscriptions of pauses.
func pauseFields(d document.Document) (fields []string) {
	for i, p := range d.Pause {
		fields = append(fields, fmt.Sprintf("pause[%d]", i))
		if p.Until != nil {
			fields = append(fields, fmt.Sprintf("pause[%d].until", i))
		}
	}
	return fields
}

// tracer adds the parts of a rule to a coverage.
type tracer struct {
	*Coverage
	rule string
}

// subscription traces an event that the rule listens to.
func (t tracer) subscription(field string, w *subscription) {
	if w.subject != "" {
		w.matched = t.point(Point{Rule: t.rule, Field: field, Kind: EventPoint})
	}
	t.condition(field+".if", w.cond)
	t.expression(field+".key", w.key)
	t.expression(field+".since", w.since)
}

// condition traces an expression that is true or false.
func (t tracer) condition(field string, x *expression) {
	if x == nil {
		return
	}
	tree := parsed(x.source)
	if tree == nil {
		return
	}
	b := branchTracer{tracer: t, field: field, x: x}
	x.traced = b.condition(tree)
}

// expression traces the conditions within an expression.
func (t tracer) expression(field string, x *expression) {
	if x == nil {
		return
	}
	if tree := parsed(x.source); tree != nil {
		b := branchTracer{tracer: t, field: field, x: x}
		x.traced = b.value(tree)
	}
}

func (t tracer) template(field string, text *template) {
	if text == nil {
		return
	}
	for _, p := range text.parts {
		t.expression(field, p.x)
	}
}
