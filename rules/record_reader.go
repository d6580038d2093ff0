package rules

import (
	"encoding/json"
	"fmt"

	"deadman/checks/lookup"
	futurejobs "deadman/future_jobs"
	"deadman/rules/bodies"
	"deadman/rules/document"
)

// RecordMapping defines the record of a source that an event contains. A replay answers lookups from such events. Its
// expressions are those of rules, over the event.
type RecordMapping struct {
	Event string   // a subject, with or without wildcards
	If    string   // a condition; empty: every event
	Key   string   // of the jobs whose lookups find the record; empty: of all jobs
	Query []string // the values of the query that finds the record; nil: every query
	Found string   // the record, an object, or nil for no record; empty: the body of the event
}

var (
	inQuery = exprEnv{place: "query", names: vocabulary(nameEvent), yields: parameter, hand: true}
	inFound = exprEnv{place: "found", names: vocabulary(nameEvent), lenient: true, hand: true}
)

// RecordReader reads records from events. It is safe for concurrent use.
type RecordReader struct {
	watch subscription
	query []*expression
	found *expression // nil: the body
}

// NewRecordReader compiles a mapping. The error is document.Problems.
func NewRecordReader(m RecordMapping) (*RecordReader, error) {
	c := newCompiler(document.Document{}, environment{}, nil, maxRulePatterns)
	if wrong := checkSubject(m.Event); wrong != "" {
		c.problem("/event", "%s", wrong)
	}
	r := &RecordReader{
		watch: subscription{
			subject: m.Event, key: c.expression("/key", m.Key, inKey.withSubject(m.Event)), cond: c.expression("/if", m.If, inIf.withSubject(m.Event)),
		},
		found: c.expression("/found", m.Found, inFound.withSubject(m.Event)),
	}
	for i, source := range m.Query {
		r.query = append(r.query, c.expression(document.ItemPointer("/query", i), source, inQuery.withSubject(m.Event)))
	}
	return r, c.problems.OrNil()
}

// Record is a record of a source.
type Record struct {
	Key   string          // of the jobs whose lookups find it; empty: of all jobs
	Query []string        // the query that finds it, as QueryValues returns it; nil: every query
	Found json.RawMessage // nil: there is no record
}

// Takes reports whether events on a subject can have records.
func (r *RecordReader) Takes(subject string) bool { return matches(r.watch.subject, subject) }

// Read returns the record in an event; ok is false for an event that the mapping does not include.
func (r *RecordReader) Read(e futurejobs.Event) (record Record, ok bool, err error) {
	if !r.Takes(e.Subject) {
		return Record{}, false, nil
	}
	if e, err = openEvent(e); err != nil {
		return Record{}, false, err
	}
	s := scope{event: bodies.New(e.Data), wild: wildcards(r.watch.subject, e.Subject)}
	if ok, err := r.watch.holds(s); !ok || err != nil {
		return Record{}, false, wrapErr("if", err)
	}
	if r.watch.key != nil {
		if record.Key, err = r.watch.key.keyOf(s); err != nil {
			return Record{}, false, err
		}
	}
	for i, x := range r.query {
		v, err := x.run(s)
		if err != nil {
			return Record{}, false, fmt.Errorf("query[%d]: %w", i, err)
		}
		text, err := written(v)
		if err != nil {
			return Record{}, false, fmt.Errorf("query[%d]: %w", i, err)
		}
		record.Query = append(record.Query, text)
	}
	record.Found, err = r.foundIn(s, e.Data)
	return record, err == nil, wrapErr("found", err)
}

// foundIn returns the record in an event; nil: there is none.
func (r *RecordReader) foundIn(s scope, body json.RawMessage) (json.RawMessage, error) {
	if r.found != nil {
		v, err := r.found.run(s)
		if err != nil || v == nil {
			return nil, err
		}
		if body, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	return body, CheckFound(body)
}

// CheckFound returns why JSON is no valid result of a lookup.
func CheckFound(found json.RawMessage) error {
	if len(found) > lookup.MaxValue {
		return fmt.Errorf("the record has %d bytes, the most is %d", len(found), lookup.MaxValue)
	}
	return bodies.New(found).CheckFound()
}

// QueryValues returns the values of a query as texts: the parameters of SQL, or the path, the subject or the key.
func QueryValues(q lookup.KeyQuery) ([]string, error) {
	if q.Params == nil {
		return []string{q.Path + q.Subject + q.Key}, nil // one of them is set
	}
	texts := make([]string, len(q.Params))
	for i, v := range q.Params {
		text, err := show(v)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}
