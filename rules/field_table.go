package rules

import (
	"fmt"

	"deadman/internal/schedules"
	"deadman/internal/subjects"
)

// The fields of a document, defined once: a reader fills them in, and a schema describes them.

func (d *Document) fields() mapping {
	return mapping{
		required: []string{"name", "entity", "trigger"},
		entries: []entry{
			{"name", "What the rule is known by; also a token of its alerts' subjects.", text{to: &d.Name, pattern: namePattern.String()}},
			{"description", "What it is for, for people.", text{to: &d.Description, most: MaxDescription, empty: true}},
			{"entity", "The kind of thing that is watched. It never changes.", text{to: &d.Entity, pattern: entityPattern.String()}},
			{"enabled", "false: no new waits begin; those that are there go on.", boolean{&d.Enabled}},
			{"trigger", "What begins a wait.", d.Trigger.fields()},
			{"update", "Events whose bodies are merged into the state.", watches(&d.Update, "update", "an empty list updates nothing; leave the field out")},
			{"resolve", "Events that end a wait because it happened.", list[Resolve]{
				to: &d.Resolve, of: (*Resolve).fields, single: true, most: MaxResolves,
				empty: "an empty list resolves nothing; leave the field out",
			}},
			{"pause", "Events that let time stand still while their condition holds, and go on when it does not.", watches(&d.Pause, "pause", "an empty list pauses nothing; leave the field out")},
			{"lookup", "What is asked of a source at each look; the answer is merged over the state.", optionalMapping[Lookup]{&d.Lookup, (*Lookup).fields}},
			{"while", "Still not happened? A condition over event, state, key and since.", source{&d.While}},
			{"escalate", "What is said, and when.", list[Step]{
				to: &d.Escalate, of: (*Step).fields, blank: blankStep, most: MaxSteps,
				shape: "steps, not %s; write: escalate: [{after: 3h, step: primary}]",
			}},
			{"recheck", "An instant to look at in between; it never postpones a step.", source{&d.Recheck}},
			{"handler", "The name of a handler that answers in the place of while and escalate.", text{to: &d.Handler, pattern: namePattern.String()}},
			{"at_most_once", "true: the handler has effects of its own, and no check of it is begun twice.", boolean{&d.AtMostOnce}},
			{"slot", "The grid on which looks take place; it divides a day.", duration{&d.Slot}},
			{"spread", "A span over which the steps of different keys are spread, each key always by the same.", duration{&d.Spread}},
			{"catch_up", "What becomes of a job that is found late.", d.CatchUp.fields()},
			{"hold", "How long after the last step a late resolve still counts.", duration{&d.Hold}},
			{"early", "How long a resolve, an update or a pause is remembered that comes before its trigger.", duration{&d.Early}},
			{"again", "What a trigger does for a key that is waited for; for a schedule it is restart where nothing is said.", choice{(*string)(&d.Again), againWords}},
			{"guards", "What bounds the looks at one entity.", d.Guards.fields()},
			{"quiet", "true: nothing is said when it happened after all.", boolean{&d.Quiet}},
			{"labels", "Templates that every alert carries, by name.", textMap{&d.Labels}},
		},
	}
}

// The words of fields that are one of a few.
var (
	againWords = []string{string(Keep), string(Restart)}
	lateWords  = []string{string(Run), string(Skip), string(Expire)}
	untilWords = []string{UntilAcknowledged}
)

func (t *Trigger) fields() mapping {
	return mapping{
		name: "trigger", either: []string{"event", "schedule", "heartbeat"},
		reserved: map[string]string{
			"query": `"query" is reserved for a later version; write an event, a schedule or a heartbeat`,
			"every": `"every" belongs into a heartbeat; for a schedule write schedule: "@every 1h"`,
			"grace": `"grace" belongs into a heartbeat`,
		},
		entries: []entry{
			{"event", "The NATS subject that begins a wait; * stands for one token, > at the end for all that follow.", subjectOf(&t.Event)},
			{"key", "Which entity the event is about: an expression over event.", source{&t.Key}},
			{"if", "A condition over event; other events are left out.", source{&t.If}},
			{"since", "When the wait began: an instant over event.", source{&t.Since}},
			{"shape", "What the event carries.", &t.Shape},
			{"schedule", "A crontab, @every DURATION or @at INSTANT; ? in a field is a value spread by the rule's name.", text{to: &t.Schedule, most: schedules.MaxText}},
			{"zone", "The time zone of the schedule.", text{to: &t.Zone}},
			{"keys", "The entities that every tick begins a wait for.", keysOf(&t.Keys)},
			{"emit", "An event that every tick publishes, in the place of a wait.", optionalMapping[Emit]{&t.Emit, (*Emit).fields}},
			{"heartbeat", "An event that has to come again and again.", optionalMapping[Heartbeat]{&t.Heartbeat, (*Heartbeat).fields}},
		},
	}
}

func (e *Emit) fields() mapping {
	return mapping{
		name: "emit", required: []string{"subject"},
		entries: []entry{
			{"subject", "The NATS subject that the event is published on, without wildcards.", subjectOf(&e.Subject)},
			{"data", "The body of the event: any value.", rawValue{&e.Data}},
		},
	}
}

func subjectOf(to *string) value { return text{to: to, most: subjects.MaxBytes} }

func keysOf(to *[]string) value {
	return texts{to: to, most: maxKeys, item: func(to *string) value { return text{to: to, most: MaxKey} }}
}

func (h *Heartbeat) fields() mapping {
	return mapping{
		name: "heartbeat", either: []string{"every", "schedule"},
		entries: []entry{
			{"event", "The NATS subject of the beat; without it pings alone are beats.", subjectOf(&h.Event)},
			{"key", "Whose beat it is: an expression over event.", source{&h.Key}},
			{"if", "A condition over event; other events are no beats.", source{&h.If}},
			{"shape", "What the event carries.", &h.Shape},
			{"every", "How often it has to come.", duration{&h.Every}},
			{"schedule", "A crontab or @every DURATION, in the place of every: a beat has to come after each tick.", text{to: &h.Schedule, most: schedules.MaxText}},
			{"zone", "The time zone of the schedule.", text{to: &h.Zone}},
			{"grace", "How much later than that it may come.", duration{&h.Grace}},
			{"kind", "What the beat says, an expression over event: success, start, fail, log or an exit status; without it, success.", source{&h.Kind}},
			{"run", "Which run the beat is of: an expression over event.", source{&h.Run}},
			{"max", "How long a run may take from its start to its end.", duration{&h.Max}},
			{"min", "How long a run has to take; one that is over sooner has failed.", duration{&h.Min}},
			{"keys", "The entities whose beats are expected from the start.", keysOf(&h.Keys)},
		},
	}
}

func watches(to *[]Watch, name, empty string) value {
	return list[Watch]{to: to, of: func(w *Watch) mapping { return w.fields(name) }, single: true, empty: empty, most: MaxResolves}
}

func (w *Watch) fields(name string) mapping {
	return mapping{
		name: name, required: []string{"event", "key"},
		entries: []entry{
			{"event", "The NATS subject.", subjectOf(&w.Event)},
			{"key", "Which entity the event is about: an expression over event.", source{&w.Key}},
			{"if", "A condition over event.", source{&w.If}},
			{"shape", "What the event carries.", &w.Shape},
		},
	}
}

func (s *Resolve) fields() mapping {
	m := s.Watch.fields("resolve")
	m.entries = append(m.entries,
		entry{"as", "The outcome in history, in the place of resolved.", text{to: &s.As, pattern: namePattern.String()}},
		entry{"distinct", "What tells the members of a set apart: an expression over event. need of them end the wait.", source{&s.Distinct}},
		entry{"need", "How many members the set has: a number, or an expression over event and state.", number{&s.Need}},
	)
	return m
}

func (l *Lookup) fields() mapping {
	return mapping{
		name: "lookup", either: []string{"sql", "http", "nats", "kv"},
		entries: []entry{
			{"sql", "One row of a database.", optionalMapping[SQLLookup]{&l.SQL, (*SQLLookup).fields}},
			{"http", "A JSON document that a GET answers.", optionalMapping[HTTPLookup]{&l.HTTP, (*HTTPLookup).fields}},
			{"nats", "A JSON document that a service answers.", optionalMapping[NATSLookup]{&l.NATS, (*NATSLookup).fields}},
			{"kv", "A JSON document in a JetStream bucket.", optionalMapping[KVLookup]{&l.KV, (*KVLookup).fields}},
		},
	}
}

func sourceOf(to *string) entry {
	return entry{"source", "The source that is asked, by its name.", text{to: to, pattern: namePattern.String()}}
}

func (l *SQLLookup) fields() mapping {
	return mapping{
		name: "sql", required: []string{"source", "query"},
		entries: []entry{
			sourceOf(&l.Source),
			{"query", "A query for one row, with $1, $2 and so on.", text{to: &l.Query, most: maxQuery}},
			{"params", "Expressions for $1, $2 and so on; without them $1 is the key.", texts{
				to: &l.Params, most: maxParams, item: func(to *string) value { return source{to} },
			}},
		},
	}
}

func (l *HTTPLookup) fields() mapping {
	return mapping{
		name: "http", required: []string{"source", "path"},
		entries: []entry{
			sourceOf(&l.Source),
			{"path", "A template for the path, which begins with a slash.", source{&l.Path}},
			{"absent", "The statuses that mean that there is no such entity.", statuses{&l.Absent}},
		},
	}
}

func (l *NATSLookup) fields() mapping {
	return mapping{
		name: "nats", required: []string{"source", "subject"},
		entries: []entry{sourceOf(&l.Source), {"subject", "A template for the subject.", source{&l.Subject}}},
	}
}

func (l *KVLookup) fields() mapping {
	return mapping{
		name: "kv", required: []string{"source", "bucket"},
		entries: []entry{
			sourceOf(&l.Source),
			{"bucket", "The bucket.", text{to: &l.Bucket, pattern: bucketPattern.String()}},
			{"key", "A template for the key in it; without it, the entity's.", source{&l.Key}},
		},
	}
}

func (s *Step) fields() mapping {
	return mapping{
		name: "step", either: []string{"after", "at", "every"},
		entries: []entry{
			{"after", "How long after the wait began, or a beat was overdue: a duration, or an expression over event, key and since that yields one.", delay{&s.After}},
			{"at", "An instant over event, key and since; for a schedule a time of day.", source{&s.At}},
			{"every", "How long after the step before, times times or until somebody acknowledges.", duration{&s.Every}},
			{"times", "How often a step with every is taken.", positiveInt{&s.Times, MaxTurns}},
			{"until", "In the place of times: a step with every is taken until somebody acknowledges.", choice{&s.Until, untilWords}},
			{"of", "A calendar: only its open time counts.", text{to: &s.Of, pattern: namePattern.String()}},
			{"within", "A calendar: where it is closed, the step waits until it opens.", text{to: &s.Within, pattern: namePattern.String()}},
			{"step", "The step's name.", text{to: &s.Name, pattern: namePattern.String()}},
			{"severity", "How loud it is.", choice{(*string)(&s.Severity), severities}},
			{"text", "What is said: a template over event, state, key, since, step and job.", source{&s.Text}},
		},
	}
}

// blankStep returns the i-th step before any of its fields is read.
func blankStep(i int) Step { return Step{Name: fmt.Sprintf("step-%d", i+1), Severity: DefaultSeverity} }

func (c *CatchUp) fields() mapping {
	return mapping{
		name: "catch_up",
		entries: []entry{
			{"after", "How much later than its slot a job has to be found.", duration{&c.After}},
			{"do", "What is done with it: looked at all the same, looked at a slot later, or ended.", choice{(*string)(&c.Do), lateWords}},
		},
	}
}

func (g *Guards) fields() mapping {
	return mapping{
		name: "guards",
		entries: []entry{
			{"timeout", "How long one look may take.", duration{&g.Timeout}},
			{"attempts", "How many looks in a row may fail to find out before that is said.", positiveInt{&g.Attempts, maxAttempts}},
			{"interval", "How long to wait before the second attempt; it doubles with each.", duration{&g.Interval}},
			{"jitter", "The most that is added to an interval.", duration{&g.Jitter}},
			{"max_checks", "How many decided looks one wait may take.", positiveInt{&g.MaxChecks, maxChecks}},
			{"horizon", "How far ahead the next look may be.", duration{&g.Horizon}},
			{"end", "true: a job whose attempts are spent ends.", boolean{&g.End}},
		},
	}
}

// checks returns the default of guards.max_checks.
func (d Document) checks() int { return d.stepCount() + SpareChecks }

// again returns the default of again: a tick restarts the job of the tick before it.
func (d Document) again() Again {
	if d.Trigger.Schedule != "" {
		return Restart
	}
	return Keep
}

// catchUp returns the default of catch_up.after.
func (d Document) catchUp() Duration { return max(DefaultCatchUp, d.Slot) }
