package document

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
			{"name", "Name of the rule; also a token of its alert subjects.", text{to: &d.Name, pattern: NamePattern.String()}},
			{"description", "Description of the rule.", text{to: &d.Description, most: MaxDescription, empty: true}},
			{"entity", "Entity type that the rule monitors. It cannot be changed.", text{to: &d.Entity, pattern: EntityPattern.String()}},
			{"enabled", "If false, no new jobs are created. Pending jobs continue.", boolean{&d.Enabled}},
			{"trigger", "What creates a job: an event, a schedule or a heartbeat.", d.Trigger.fields()},
			{"update", "Events whose bodies are merged into the state.", watches(&d.Update, "update", "an empty list updates nothing; remove the field")},
			{"resolve", "Events that resolve a job.", list[Resolve]{
				to: &d.Resolve, of: (*Resolve).fields, single: true, most: MaxResolves,
				empty: "an empty list resolves nothing; remove the field",
			}},
			{"pause", "Events that pause a job while their condition is true, or until another event.", list[Pause]{
				to: &d.Pause, of: (*Pause).fields, single: true, most: MaxResolves,
				empty: "an empty list pauses nothing; remove the field",
			}},
			{"lookup", "Query to a source at each check. The result is merged into the state.", optionalMapping[Lookup]{&d.Lookup, (*Lookup).fields}},
			{"while", "Condition over event, state, key and since. While it is true, the job stays pending; when it is false, the job ends.", source{&d.While}},
			{"escalate", "Escalation steps: when to raise an alert, and its severity and text.", list[Step]{
				to: &d.Escalate, of: (*Step).fields, blank: blankStep, most: MaxSteps,
				shape: "steps, not %s; write: escalate: [{after: 3h, step: primary}]",
			}},
			{"calendars", "Calendars of the rule alone, by name, for of and within. They hide shared calendars with these names.", calendarMap{&d.Calendars}},
			{"recheck", "Expression for the time of an additional check. It does not postpone steps.", source{&d.Recheck}},
			{"handler", "Name of a handler that decides the checks, instead of while and escalate.", text{to: &d.Handler, pattern: NamePattern.String()}},
			{"at_most_once", "If true, the handler has side effects, and each check is started at most once.", boolean{&d.AtMostOnce}},
			{"slot", "Grid to which checks are rounded, a duration that divides a day.", duration{&d.Slot}},
			{"spread", "Duration over which the steps of different keys are spread. The delay of a key is constant.", duration{&d.Spread}},
			{"catch_up", "Handling of late jobs.", d.CatchUp.fields()},
			{"hold", "Late-resolve window: time after the last step in which an event still resolves the job.", duration{&d.Hold}},
			{"early", "Early-resolve window: time for which a resolve, update or pause is stored that arrives before its trigger.", duration{&d.Early}},
			{"again", "What a trigger does if the key has a pending job. Default: keep; restart for schedules.", choice{(*string)(&d.Again), AgainValues}},
			{"guards", "Limits of the checks of a job.", d.Guards.fields()},
			{"quiet", "If true, no resolved alerts are raised.", boolean{&d.Quiet}},
			{"keep", "How long ended jobs and alerts are kept. Default: the settings keep_history and keep_alerts.", optionalMapping[Retention]{&d.Keep, (*Retention).fields}},
			{"labels", "Labels of all alerts, as templates.", textMap{&d.Labels}},
		},
	}
}

// The words of fields that are one of a few.
var (
	AgainValues = []string{string(Keep), string(Restart)}
	LateValues  = []string{string(Run), string(Skip), string(Expire), string(All)}
	UntilValues = []string{UntilAcknowledged}
)

func (t *Trigger) fields() mapping {
	return mapping{
		name: "trigger", either: []string{"event", "schedule", "heartbeat"},
		reserved: map[string]string{
			"query": `"query" is reserved for a later version; write an event, a schedule or a heartbeat`,
			"every": `"every" belongs inside heartbeat; for a schedule write schedule: "@every 1h"`,
			"grace": `"grace" belongs inside heartbeat`,
		},
		entries: []entry{
			{"event", "NATS subject that creates a job. * matches one token, > at the end all further tokens.", subjectOf(&t.Event)},
			{"key", "Expression over event for the key of the entity.", source{&t.Key}},
			{"if", "Condition over event. Other events are ignored.", source{&t.If}},
			{"since", "Expression over event for the start of the job. Default: the time of the event.", source{&t.Since}},
			{"shape", "Fields of the event body and their types.", &t.Shape},
			{"schedule", "Crontab, @every DURATION or @at TIME, or @stored: the schedules of the rule are data, changed through the API. ? in a field is a value derived from the rule's name.", text{to: &t.Schedule, most: schedules.MaxText, example: "0 9 * * 1-5"}},
			{"zone", "Time zone of the schedule.", text{to: &t.Zone}},
			{"keys", "Keys for which each tick creates a job.", keysOf(&t.Keys)},
			{"emit", "Event that each tick publishes, instead of creating a job.", optionalMapping[Emit]{&t.Emit, (*Emit).fields}},
			{"heartbeat", "Signal that must recur.", optionalMapping[Heartbeat]{&t.Heartbeat, (*Heartbeat).fields}},
		},
	}
}

func (e *Emit) fields() mapping {
	return mapping{
		name: "emit", either: []string{"subject", "webhook"},
		entries: []entry{
			{"subject", "NATS subject to publish the event to, without wildcards.", subjectOf(&e.Subject)},
			{"webhook", "Channel of the kind webhook that posts the events of stored schedules, instead of subject.", text{to: &e.Webhook}},
			{"attempts", "Number of attempts to post an event. Default: 5.", positiveInt{&e.Attempts, MaxAttempts}},
			{"interval", "Delay before the second attempt. It doubles with each attempt. Default: 1s.", duration{&e.Interval}},
			{"data", "Body of the event: any JSON value.", rawValue{&e.Data}},
		},
	}
}

func subjectOf(to *string) value { return text{to: to, most: subjects.MaxBytes} }

func keysOf(to *[]string) value {
	return texts{to: to, most: MaxKeys, item: func(to *string) value { return text{to: to, most: MaxKey} }}
}

func (h *Heartbeat) fields() mapping {
	return mapping{
		name: "heartbeat", either: []string{"every", "schedule"},
		entries: []entry{
			{"event", "NATS subject of the heartbeat. Default: pings only.", subjectOf(&h.Event)},
			{"key", "Expression over event for the key of the heartbeat.", source{&h.Key}},
			{"if", "Condition over event. Other events are ignored.", source{&h.If}},
			{"shape", "Fields of the event body and their types.", &h.Shape},
			{"every", "Maximum time between two heartbeats.", duration{&h.Every}},
			{"schedule", "Crontab or @every DURATION, instead of every: a heartbeat is due after each tick.", text{to: &h.Schedule, most: schedules.MaxText, example: "0 9 * * 1-5"}},
			{"zone", "Time zone of the schedule.", text{to: &h.Zone}},
			{"grace", "Tolerance before a missing heartbeat is overdue.", duration{&h.Grace}},
			{"kind", "Expression over event for the kind of the heartbeat: success, start, fail, log or an exit status. Default: success.", source{&h.Kind}},
			{"run", "Expression over event for the run ID of the heartbeat.", source{&h.Run}},
			{"max", "Maximum duration of a run, from start to end.", duration{&h.Max}},
			{"min", "Minimum duration of a run. A shorter run has failed.", duration{&h.Min}},
			{"too_often", "Minimum time between the starts of two runs. A run that starts sooner has failed.", duration{&h.TooOften}},
			{"keys", "Keys that are expected from the creation of the rule.", keysOf(&h.Keys)},
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
			{"event", "NATS subject of the event.", subjectOf(&w.Event)},
			{"key", "Expression over event for the key of the entity.", source{&w.Key}},
			{"if", "Condition over event. Other events are ignored.", source{&w.If}},
			{"shape", "Fields of the event body and their types.", &w.Shape},
		},
	}
}

// until are the fields of an event that ends a pause.
func (w *Watch) until() mapping {
	m := w.fields("until")
	m.required = []string{"event"}
	return m
}

func (p *Pause) fields() mapping {
	m := p.Watch.fields("pause")
	m.entries = append(m.entries, entry{"until", "Event that ends the pause: a subject, or a mapping. Its key is that of the pause unless it has one.", eventOrSubject{&p.Until}})
	return m
}

func (s *Resolve) fields() mapping {
	m := s.Watch.fields("resolve")
	m.entries = append(m.entries,
		entry{"as", "Outcome of the job in the history. Default: resolved.", text{to: &s.As, pattern: NamePattern.String()}},
		entry{"distinct", "Expression over event that identifies a member of a set. The job ends after need distinct members.", source{&s.Distinct}},
		entry{"need", "Number of distinct members: a number, or an expression over event and state.", number{&s.Need}},
	)
	return m
}

func (l *Lookup) fields() mapping {
	return mapping{
		name: "lookup", either: []string{"sql", "http", "nats", "kv"},
		entries: []entry{
			{"sql", "Query for one row of a database.", optionalMapping[SQLLookup]{&l.SQL, (*SQLLookup).fields}},
			{"http", "GET request for a JSON document.", optionalMapping[HTTPLookup]{&l.HTTP, (*HTTPLookup).fields}},
			{"nats", "NATS request for a JSON document.", optionalMapping[NATSLookup]{&l.NATS, (*NATSLookup).fields}},
			{"kv", "JSON document in a JetStream key-value bucket.", optionalMapping[KVLookup]{&l.KV, (*KVLookup).fields}},
		},
	}
}

func sourceOf(to *string) entry {
	return entry{"source", "Name of the source.", text{to: to, pattern: NamePattern.String()}}
}

func (l *SQLLookup) fields() mapping {
	return mapping{
		name: "sql", required: []string{"source", "query"},
		entries: []entry{
			sourceOf(&l.Source),
			{"query", "SQL query for one row, with parameters $1, $2 and so on.", text{to: &l.Query, most: MaxQuery}},
			{"params", "Expressions for $1, $2 and so on. Default: $1 is the key.", texts{
				to: &l.Params, most: MaxParams, item: func(to *string) value { return source{to} },
			}},
		},
	}
}

func (l *HTTPLookup) fields() mapping {
	return mapping{
		name: "http", required: []string{"source", "path"},
		entries: []entry{
			sourceOf(&l.Source),
			{"path", "Template for the path, beginning with a slash.", template{&l.Path}},
			{"absent", "HTTP statuses that mean that the entity does not exist.", statuses{&l.Absent}},
		},
	}
}

func (l *NATSLookup) fields() mapping {
	return mapping{
		name: "nats", required: []string{"source", "subject"},
		entries: []entry{sourceOf(&l.Source), {"subject", "Template for the subject.", template{&l.Subject}}},
	}
}

func (l *KVLookup) fields() mapping {
	return mapping{
		name: "kv", required: []string{"source", "bucket"},
		entries: []entry{
			sourceOf(&l.Source),
			{"bucket", "Name of the bucket.", text{to: &l.Bucket, pattern: BucketPattern.String()}},
			{"key", "Template for the key in the bucket. Default: the key of the entity.", template{&l.Key}},
		},
	}
}

// stepCondition is the problem of a step with a condition.
const stepCondition = "a step has a time and no condition; write the condition of the whole rule as while, beside escalate, or a time that depends on the event, such as after: hours(event.sla_hours)"

func (s *Step) fields() mapping {
	return mapping{
		name: "step", either: []string{"after", "at", "every"},
		reserved: map[string]string{
			"if": stepCondition, "when": stepCondition, "unless": stepCondition, "condition": stepCondition,
			"while": `"while" is a field of the rule, beside escalate; move it there`,
		},
		entries: []entry{
			{"after", "Time after the start of the job, or after the heartbeat was due: a duration, or an expression over event, key and since for one.", delay{&s.After}},
			{"at", "Expression over event, key and since for a time. For a schedule, a time of day.", source{&s.At}},
			{"every", "Interval of repetitions after the previous step; see times and until.", duration{&s.Every}},
			{"times", "Number of repetitions of a step with every.", positiveInt{&s.Times, MaxTurns}},
			{"until", "Alternative to times: repeat the step until the alert is acknowledged.", choice{&s.Until, UntilValues}},
			{"of", "Calendar whose open time counts.", text{to: &s.Of, pattern: NamePattern.String()}},
			{"within", "Calendar: while it is closed, the step is postponed until it opens.", text{to: &s.Within, pattern: NamePattern.String()}},
			{"step", "Name of the step.", text{to: &s.Name, pattern: NamePattern.String()}},
			{"severity", "Severity of the alert.", choice{(*string)(&s.Severity), Severities}},
			{"text", "Template for the text of the alert, over event, state, key, since, step and job.", template{&s.Text}},
		},
	}
}

// blankStep returns the i-th step before any of its fields is read.
func blankStep(i int) Step { return Step{Name: fmt.Sprintf("step-%d", i+1), Severity: DefaultSeverity} }

func (c *CatchUp) fields() mapping {
	return mapping{
		name: "catch_up",
		entries: []entry{
			{"after", "Delay after its slot from which a job is late.", duration{&c.After}},
			{"do", "run: check the job. skip: check it at its next slot. expire: end it. all, for stored schedules: emit the event of each missed tick up to after, in order.", choice{(*string)(&c.Do), LateValues}},
		},
	}
}

func (g *Guards) fields() mapping {
	return mapping{
		name: "guards",
		entries: []entry{
			{"timeout", "Timeout of a check.", duration{&g.Timeout}},
			{"attempts", "Number of consecutive failed checks before an alert is raised.", positiveInt{&g.Attempts, MaxAttempts}},
			{"interval", "Delay before the second attempt. It doubles with each attempt.", duration{&g.Interval}},
			{"jitter", "Maximum random addition to an interval.", duration{&g.Jitter}},
			{"max_checks", "Maximum number of completed checks of a job.", positiveInt{&g.MaxChecks, MaxChecks}},
			{"horizon", "Maximum time until the next check.", duration{&g.Horizon}},
			{"end", "If true, a job ends after the last attempt.", boolean{&g.End}},
		},
	}
}
