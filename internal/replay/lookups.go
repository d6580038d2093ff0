package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"deadman/checks"
	"deadman/internal/configfile"
	"deadman/rules"
)

// Lookups are the answers of sources to the lookups of a replay: given ones, and those in events. They can be used by
// several replays.
type Lookups struct {
	sources map[string]*lookupAnswers
}

// lookupAnswers are the answers of a source.
type lookupAnswers struct {
	given   map[lookupMatch][]lookupAnswer // by the time from which they hold
	readers []*rules.RecordReader
}

// lookupMatch selects the lookups that an answer is for.
type lookupMatch struct {
	key   string // of the job; empty: of all jobs
	query string // the values, each with a NUL behind it; empty: all queries
}

func newLookupMatch(key string, query []string) lookupMatch {
	m := lookupMatch{key: key}
	for _, value := range query {
		m.query += value + "\x00"
	}
	return m
}

// lookupAnswer is the answer of a source from a time on.
type lookupAnswer struct {
	from time.Time
	checks.Finding
}

// ParseLookups reads the field sources of a YAML file. The error is configfile.Problems.
func ParseLookups(data []byte, file string) (*Lookups, error) {
	l := &Lookups{}
	err := configfile.Read(data, file, func(v configfile.Value) {
		if all := v.In(lookupFileFields)["sources"].Require("write the answers of each source under its name"); all.Present() {
			l = ReadLookups(all, func(from configfile.Value) time.Time {
				at, err := parseTime(from.Text(), time.UTC)
				if err != nil && !from.HasProblem() {
					from.Problem("%v", err)
				}
				return at
			})
		}
	})
	return l, err
}

// ReadLookups reads the answers of sources by their names. instant reads the time from which an answer holds.
func ReadLookups(v configfile.Value, instant func(configfile.Value) time.Time) *Lookups {
	l := &Lookups{sources: make(map[string]*lookupAnswers)}
	for _, one := range v.Entries("a name for each source") {
		if wrong := configfile.CheckName(one.Name); wrong != "" {
			one.ProblemAtName("%s", wrong)
		}
		fields := one.In(lookupSourceFields)
		if !fields["answers"].Present() && !fields["events"].Present() && !one.HasProblem() {
			one.ProblemAtName("the source has no answers; write answers: {unavailable: unknown} if they are unknown")
		}
		s := &lookupAnswers{given: make(map[lookupMatch][]lookupAnswer)}
		for _, answer := range fields["answers"].OneOrList() {
			s.readAnswer(one.Name, answer, instant)
		}
		for _, list := range s.given {
			slices.SortStableFunc(list, func(a, b lookupAnswer) int { return a.from.Compare(b.from) })
		}
		for _, mapping := range fields["events"].OneOrList() {
			s.readMapping(mapping)
		}
		l.sources[one.Name] = s
	}
	return l
}

// readAnswer reads a given answer of a source.
func (s *lookupAnswers) readAnswer(source string, v configfile.Value, instant func(configfile.Value) time.Time) {
	fields := v.In(answerFields)
	var a lookupAnswer
	results := 0
	for _, kind := range []string{"found", "absent", "error", "unavailable"} {
		result := fields[kind]
		if !result.Present() {
			continue
		}
		results++
		switch kind {
		case "found":
			a.Value = result.JSON()
			if err := rules.CheckFound(a.Value); err != nil {
				result.Problem("%v", err)
			}
		case "absent":
			requireTrue(result)
		case "error":
			a.Err = errors.New(result.Text())
		case "unavailable":
			a.Err = &checks.Outage{Source: source, Err: errors.New(result.Text())}
		}
	}
	if results != 1 && !v.HasProblem() {
		v.Problem("an answer has one result; write found: {status: SHIPPED}, absent: true, error: the reason, or unavailable: the reason")
	}
	if from := fields["from"]; from.Present() {
		a.from = instant(from)
	}
	m := newLookupMatch(scalar(fields["key"]), scalars(fields["query"]))
	s.given[m] = append(s.given[m], a)
}

// readMapping reads a mapping of events to answers.
func (s *lookupAnswers) readMapping(v configfile.Value) {
	fields := v.In(mappingFields)
	mapping := rules.RecordMapping{
		Event: scalar(fields["event"].Require("write the subject of the events, such as orders.changed")), If: scalar(fields["if"]),
		Key: scalar(fields["key"]), Query: scalars(fields["query"]), Found: scalar(fields["found"]),
	}
	if absent := fields["absent"]; absent.Present() {
		requireTrue(absent)
		if mapping.Found != "" {
			absent.Problem("the event has a record or none; keep found or absent")
		}
		mapping.Found = "nil"
	}
	if v.HasProblem() {
		return
	}
	reader, err := rules.NewRecordReader(mapping)
	if err != nil {
		v.Problem("%v", err)
	}
	s.readers = append(s.readers, reader)
}

func requireTrue(v configfile.Value) {
	if !v.Bool() && !v.HasProblem() {
		v.Problem("write true, or leave the field out")
	}
}

// scalar returns a text, a number or a boolean as text.
func scalar(v configfile.Value) string {
	if text, ok := v.RawText(); ok || !v.Present() {
		return text
	}
	switch text := string(v.JSON()); text[:min(1, len(text))] {
	case "[", "{", "n", "":
		v.Problem("expected text or a number, not %s", v.Kind())
		return ""
	default:
		return text
	}
}

func scalars(v configfile.Value) (texts []string) {
	if v.Present() {
		for _, item := range v.OneOrList() {
			texts = append(texts, scalar(item))
		}
	}
	return texts
}

// Reads reports whether events on a subject can have records of a source.
func (l *Lookups) Reads(subject string) bool {
	if l == nil {
		return false
	}
	for _, s := range l.sources {
		if slices.ContainsFunc(s.readers, func(r *rules.RecordReader) bool { return r.Takes(subject) }) {
			return true
		}
	}
	return false
}

// SameAnswer returns the lookups of a source that has one answer to all, an object, or null if no record exists. The error
// names the remedy.
func SameAnswer(source string, found json.RawMessage) (*Lookups, error) {
	if string(found) == "null" {
		found = nil
	} else if err := rules.CheckFound(found); err != nil {
		return nil, err
	}
	given := map[lookupMatch][]lookupAnswer{{}: {{Finding: checks.Finding{Value: found}}}}
	return &Lookups{sources: map[string]*lookupAnswers{source: {given: given}}}, nil
}

// Covers reports whether a source has answers. A nil Lookups has none.
func (l *Lookups) Covers(source string) bool { return l != nil && l.sources[source] != nil }

// uncovered returns the error of a rule with a lookup that the replay cannot answer.
func (l *Lookups) uncovered(rule, source string) error {
	err := fmt.Errorf("%w: rule %s queries source %s, whose past answers are unknown; answer it from a file of --lookups, or leave the rule out", ErrRule, rule, source)
	if l != nil {
		if near := configfile.Suggest(source, slices.Sorted(maps.Keys(l.sources))); near != "" {
			err = fmt.Errorf("%w (the file answers %s; is that the same source?)", err, near)
		}
	}
	return err
}
