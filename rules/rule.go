package rules

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"deadman/alerts"
	"deadman/checks"
	futurejobs "deadman/future_jobs"
	"deadman/guards"
	"deadman/internal/calendars"
)

// Rule is one version of a rule, compiled. It is safe for concurrent use.
type Rule struct {
	document Document
	engine   futurejobs.Rule
	trigger  subscription
	beats    *heartbeat // nil: another trigger
	ticking  *ticking   // nil: it does not tick
	updates  []subscription
	resolves []subscription
	pauses   []subscription
	while    *expression       // nil: the job is not resolved
	recheck  *expression       // nil: no check in between
	question *lookupQuery      // nil: no source is queried
	steps    []step            // each repetition of a step is one
	labels   []label           // by name
	said     map[string]string // the labels, if they are the same for every job

	starts    []string // the streams of the trigger
	remembers bool     // an end may come before its trigger
	orders    bool     // events that change or end its jobs come from other streams than the trigger's, too
	scattered bool     // its pauses come from several streams

	spread int // over how many slots the steps of different keys are spread; 1: they are not
	// offsets are the offsets of the steps of a heartbeat within a slot; nil: they are not literal.
	offsets []time.Duration

	spend *budget // the budget of all expressions together; nil: one for each event or check

	allowance *checkAllowance // bounds what its checks and ticks cost over time; nil: nothing does

	own *atomic.Pointer[ownEngine] // the last one that was requested

	weight int // the approximate memory of the rule, in bytes

	rising bool // the steps are taken in the order of the document, except those repeated until a user acknowledges
}

// ownEngine is the engine's view of a rule whose jobs can be ended by the streams of the newest version, too.
type ownEngine struct {
	ending []string // those streams
	engine *futurejobs.Rule
}

// subscription is an event that a rule listens to.
type subscription struct {
	subject string
	key     *expression
	cond    *expression // nil: every event
	since   *expression // nil: when the stream stored the event
	outcome checks.Outcome
	wild    bool // it reads the tokens that the wildcards of its subject match

	distinct *expression // nil: it is no set
	need     *expression // how many members the set has; nil if distinct is
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

// clock is a time of day in a zone, after a tick.
type clock struct {
	shows string // such as 09:00
	zone  *time.Location
}

// label is a label that alerts carry.
type label struct {
	name string
	text *template
}

// Document returns the source of the rule.
func (r *Rule) Document() Document { return r.document }

// Engine returns the engine's view of the rule.
func (r *Rule) Engine() *futurejobs.Rule { return &r.engine }

// newEngineRule prepares the rule for the engine, once all of it is compiled.
func (r *Rule) newEngineRule(saved RuleVersion, grid futurejobs.Grid, world environment) {
	d := r.document
	r.spread = max(1, int(time.Duration(d.Spread)/time.Duration(grid)))
	r.rising, r.said = r.written(), constant(r.labels)
	r.starts = d.startsBy(saved.Reads)
	for _, read := range saved.Reads {
		r.remembers = r.remembers || r.early(read.Stream) > 0
	}
	r.orders, r.scattered = r.ordersEvents(saved.Reads), len(d.streamsOf(saved.Reads, pauseSubjects(d))) > 1
	r.remembers = r.remembers || r.orders && d.Early > 0
	r.own = new(atomic.Pointer[ownEngine])
	r.engine = futurejobs.Rule{
		ID: saved.RuleID, Version: saved.Version, Name: d.Name, Entity: d.Entity, Deleted: !saved.DeletedAt.IsZero(),
		Grid: grid, Labels: r.labelsOf, Handler: handler{r}, MaxSeverity: loudest(d.Escalate),
		Limits: guards.Limits{
			Timeout: time.Duration(d.Guards.Timeout), Attempts: d.Guards.Attempts, MaxChecks: d.Guards.MaxChecks,
			Interval: time.Duration(d.Guards.Interval), Jitter: time.Duration(d.Guards.Jitter),
			Horizon: time.Duration(d.Guards.Horizon), End: d.Guards.End,
		},
		CatchUp:     futurejobs.CatchUp{After: time.Duration(d.CatchUp.After), Do: late[d.CatchUp.Do]},
		Streams:     d.waitsFor(saved.Reads),
		BeatStreams: d.hears(saved.Reads),
	}
	if r.orders {
		r.engine.Early, r.engine.Scattered = time.Duration(d.Early), len(r.starts) > 1
	}
	if r.beats != nil {
		r.offsets = r.offsetsOf()
	}
	if r.allowance = world.checkAllowance(saved); r.allowance != nil {
		r.engine.Allowance = r.allowance
	}
	if d.Handler != "" {
		r.engine.Handler = newNamedHandler(r, world.handlers.Lookup(d.Handler))
	}
	if d.Handler == "" {
		r.engine.Upcoming = r.upcomingOf
	}
	r.shifts()
	if r.question != nil {
		r.engine.Finder = &finder{r.question, world.source(r.question.source), r.engine.Limits.Timeout}
	}
	if !d.Quiet {
		r.engine.Closing = func(j futurejobs.Job, text string) alerts.Draft { return r.closeAlert(waitOf(j), j.Step, text) }
	}
}

var late = map[Late]futurejobs.LateAction{Run: futurejobs.Run, Skip: futurejobs.Skip, Expire: futurejobs.Expire}

// constant returns labels that are the same for every job; nil if one is not.
func constant(labels []label) map[string]string {
	said := make(map[string]string, len(labels))
	for _, l := range labels {
		text, is := l.text.constant()
		if !is {
			return nil
		}
		said[l.name] = text
	}
	return said
}

// loudest returns the highest severity of the steps, and the default for a handler.
func loudest(steps []Step) alerts.Severity {
	if len(steps) == 0 {
		return DefaultSeverity
	}
	order := []alerts.Severity{alerts.Info, alerts.Warning, alerts.Error, alerts.Critical}
	at := 0
	for _, s := range steps {
		at = max(at, slices.Index(order, s.Severity))
	}
	return order[at]
}

// waitsFor returns the streams whose events can change, end or restart a job of the rule, each once, sorted.
func (d Document) waitsFor(reads []StreamBinding) []string {
	changing := make(map[string]bool)
	if h := d.Trigger.Heartbeat; h != nil && h.Event != "" {
		changing[h.Event] = true
	}
	if d.Again == Restart && d.Trigger.Event != "" {
		changing[d.Trigger.Event] = true
	}
	for _, r := range d.Resolve {
		changing[r.Event] = true
	}
	for _, w := range slices.Concat(d.Update, d.Pause) {
		changing[w.Event] = true
	}
	return d.streamsOf(reads, changing)
}

// startsBy returns the streams of the trigger, sorted.
func (d Document) startsBy(reads []StreamBinding) []string {
	if d.Trigger.Event == "" {
		return nil
	}
	return d.streamsOf(reads, map[string]bool{d.Trigger.Event: true})
}

// streamsOf returns the streams that subjects are read from, each once, sorted.
func (Document) streamsOf(reads []StreamBinding, subjects map[string]bool) []string {
	var streams []string
	for _, read := range reads {
		if subjects[read.Subject] {
			streams = append(streams, read.Stream)
		}
	}
	slices.Sort(streams)
	return slices.Compact(streams)
}

func pauseSubjects(d Document) map[string]bool {
	subjects := make(map[string]bool)
	for _, w := range d.Pause {
		subjects[w.Event] = true
	}
	return subjects
}

// ordersEvents reports whether the jobs of the rule have to remember the order of events: the events that trigger,
// change or end them come from more than one stream.
func (r *Rule) ordersEvents(reads []StreamBinding) bool {
	if r.beats != nil || len(r.starts) == 0 {
		return false
	}
	return slices.ContainsFunc(r.document.waitsFor(reads), func(stream string) bool { return !only(r.starts, stream) })
}

// hears returns the streams of the rule's heartbeats, sorted; "" for pings, if no event is a heartbeat; none for a rule
// without a heartbeat. Pings to a rule with heartbeat events are heartbeats too, but its jobs must not restart for each
// restart of deadman that missed no event.
func (d Document) hears(reads []StreamBinding) []string {
	h := d.Trigger.Heartbeat
	switch {
	case h == nil:
		return nil
	case h.Event == "":
		return []string{""}
	}
	var topics []string
	for _, read := range reads {
		if read.Subject == h.Event {
			topics = append(topics, read.Stream)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (r *Rule) ref(key string, shards int) futurejobs.Ref {
	return futurejobs.Ref{Shard: futurejobs.ShardOf(r.engine.Entity, key, shards), RuleID: r.engine.ID, Key: key}
}

// closeAlert drafts the alert that closes the alerts of a job: with the severity of the last one, so that everyone who
// was notified is notified again. step is how many steps were taken.
func (r *Rule) closeAlert(w waitContext, step int, text string) alerts.Draft {
	d := alerts.Draft{
		Status: alerts.Resolved, Severity: r.engine.MaxSeverity, Text: text, Labels: r.label(w.scope),
	}
	line, err := r.timeline(w)
	if at := min(step, len(line)) - 1; err == nil && at >= 0 {
		d.Severity, d.Step, d.StepIndex = line[at].severity, line[at].name, at
	}
	return d
}

func wrapErr(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
}
